"""A folder of recipes that someone else wrote: it reads no file of this host, and never hangs.

Each attack puts something else in the place of a file or a folder; the answer is the same for all.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import InputError, Problems
from lumicontainer.system.files import recipe_folder

from ..conftest import CHECK, HELLO, Write

SECRET = "root:$y$j9T$never-print-this:19000:0:99999:7:::"
SECONDS = 120
"""A reading that takes longer hangs."""

FILES = {
    **HELLO,
    "hello.yaml": HELLO["hello.yaml"] + "profiles: [mine]\n",
    "profiles/mine.yaml": "summary: versions\naccelerator: cpu\n",
    "rules.yaml": "rules: []\n",
    "envs/here.yaml": "summary: this machine\naccelerator: cpu\n",
    "checks/mine.sh": f"{CHECK}true\n",
    "layers/greet/checks/mine.sh": f"{CHECK}true\n",
    "layers/greet/deep/er/file": "x\n",
    "locks/hello.here.mine.lock.yaml": (
        "recipe: hello\nplatform: here\nprofile: mine\nlayers: {}\n"
    ),
}
"""Every kind of document that is read from a folder of recipes, and the files of a layer."""

SHOW = ("show", "hello", "--platform", "here")
COMMANDS = (
    SHOW,
    ("build", "hello", "--platform", "here", "--dry-run"),
    ("check", "hello", "--platform", "here"),
    ("render", "hello", "--platform", "here"),
    ("list",),
)


def ask(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lumicontainer", *words, "--recipes", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)


FOLDERS = sorted({str(above) for name in FILES for above in Path(name).parents} - {"."})


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder beside the recipes whose every file holds a secret."""
    folder = tmp_path / "outside"
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n")
    return folder


def test_the_folder_as_it_is_has_nothing_wrong(write: Write) -> None:
    folder = write(FILES)
    for words in COMMANDS:
        done = ask(folder, *words)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [*FILES, *FOLDERS])
def test_a_link_in_the_place_of_a_file_or_a_folder_is_refused_and_not_read(
    write: Write, outside: Path, name: str
) -> None:
    folder = write(FILES)
    (folder / name).rename(folder / "moved")
    (folder / name).symlink_to(outside / name)
    done = ask(folder, *SHOW)
    assert done.returncode == 2
    assert "cannot read a symbolic link" in done.stderr
    assert name in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_no_command_prints_a_line_of_a_file_that_a_link_leads_to(
    write: Write, outside: Path, words: tuple[str, ...]
) -> None:
    folder = write(FILES)
    for name in FILES:
        (folder / name).unlink()
        (folder / name).symlink_to(outside / name)
    done = ask(folder, *words)
    assert done.returncode == 2
    assert SECRET not in done.stdout + done.stderr


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    # The path of a socket holds at most 107 bytes.
    here = os.open(path.parent, os.O_RDONLY)
    socket.socket(socket.AF_UNIX).bind(f"/proc/self/fd/{here}/{path.name}")


def huge(path: Path) -> None:
    with path.open("w") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("other", [os.mkfifo, device, listening, huge, Path.mkdir])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_plain_file_is_refused_without_waiting(
    write: Write, name: str, other: Callable[[Path], None]
) -> None:
    folder = write(FILES)
    (folder / name).unlink()
    other(folder / name)
    problems, above = Problems(), Path(name).parent
    files = list(recipe_folder.files_below(folder, str(above), problems))
    if other is Path.mkdir:
        assert name not in {str(above / file.name) for file in files}
        return
    assert name in str(problems.noted[0])
    with pytest.raises(InputError, match=r"cannot read a (pipe|symbolic link|socket|file of more)"):
        recipe_folder.read_text(folder, name)


def test_the_hint_for_a_large_file_of_a_layer_is_not_that_for_a_document(write: Write) -> None:
    folder, problems = write(HELLO), Problems()
    huge(folder / "layers/greet/data")
    list(recipe_folder.files_below(folder, "layers/greet", problems))
    assert [each.hint for each in problems.noted] == [recipe_folder.NAME_INPUTS]
    huge(folder / "hello.yaml")
    done = ask(folder, "show", "hello")
    assert done.returncode == 2
    assert "a file of more than 1 MiB" in done.stderr
    assert "sources" not in done.stderr


def test_a_file_that_becomes_a_link_while_it_is_read_is_not_followed(
    write: Write, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(FILES)
    path = folder / "hello.yaml"
    real = os.stat

    def swapped(*words: Any, **options: Any) -> os.stat_result:
        state = real(*words, **options)
        path.unlink()
        path.symlink_to(outside / "hello.yaml")
        return state

    monkeypatch.setattr(os, "stat", swapped)
    with pytest.raises(InputError) as error:
        recipe_folder.read_text(folder, "hello.yaml")
    assert SECRET not in str(error.value)


def test_a_folder_without_an_end_is_given_up(write: Write) -> None:
    folder = write(HELLO)
    deep = "d/" * (recipe_folder.MAX_DEPTH + 5)
    (folder / "layers/greet" / deep).mkdir(parents=True)
    problems = Problems()
    list(recipe_folder.files_below(folder, "layers/greet", problems))
    assert "nested more than" in str(problems.noted[0])


def test_the_folder_that_the_user_names_may_be_a_link(write: Write, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(write(HELLO))
    done = ask(tmp_path / "link", "show", "hello")
    assert done.returncode == 0, done.stderr
