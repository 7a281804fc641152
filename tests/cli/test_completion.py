"""A real bash and a real zsh complete a line when somebody presses Tab."""

import os
import re
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..conftest import HELLO
from ..unit.terminals import DEADLINE
from .conftest import Run, succeeded

START = {"bash": "bash --norc --noprofile -i", "zsh": "zsh -f -i"}
BEGIN = {"bash": "", "zsh": "autoload -Uz compinit; compinit -u -D; "}
# What is completed is printed, not run.
PRINT = """lumicontainer() {
    [ "$1" = completion ] && command lumicontainer "$@" || printf "<%s>\\n" "$*"; }; """


class Shell:
    """A shell at a terminal, and somebody who types."""

    def __init__(self, name: str, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.terminal = subprocess.Popen(
            ["script", "--quiet", "--command", START[name], "/dev/null"],
            cwd=folder,
            env={**os.environ, "PATH": path, "TERM": "dumb", "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        begin = f'{BEGIN[name]}eval "$(lumicontainer completion {name})"; '
        self._type(begin + PRINT.replace("\n", " ") + "echo '<''begun>'\n")
        self._printed("<begun>")

    def completed(self, line: str) -> str:
        """Return what a line is run as after a press of the tabulator at its end."""
        self._type(f"lumicontainer {line}\t\n")
        return self._printed(r"<[^\r\n]*>")[1:-1].rstrip(" /")

    def _type(self, keys: str) -> None:
        self.terminal.stdin.write(keys.encode())

    def _printed(self, pattern: str) -> str:
        shown, end = "", time.monotonic() + DEADLINE
        while not (match := re.search(f"^({pattern})\r?$", shown, re.MULTILINE)):
            assert time.monotonic() < end, f"no {pattern!r} in {shown!r}"
            if select.select([self.terminal.stdout], [], [], 0.5)[0]:
                shown += self.terminal.stdout.read(4096).decode("utf-8", "replace")
        return match[1]


@pytest.fixture(scope="module", params=sorted(START))
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("typing")
    for name, text in {**HELLO, "envs/nowhere.yaml": "summary: x\naccelerator: cpu\n"}.items():
        path = folder / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "train.py").touch()
    made = Shell(request.param, folder)
    with made.terminal:
        yield made
        made.terminal.kill()


@pytest.mark.parametrize(
    ("typed", "added"),
    [
        ("rend", "er"),
        ("build pytorch-d", "eepspeed"),
        ("build --platform lum", "i-g"),
        ("check rocm --profile rocm-7", ".0.2"),
        ("build pytorch-deepspeed --set deepspeed.ma", "rch="),
        ("build --set deepspeed.DS_BUILD_AIO=t", "rue"),
        ("show --set deepspeed.march=zn", "ver3"),
        ("build --set mpich.version=4.3.2 pytorch-d", "eepspeed"),
        ("show deeps", "peed"),
        ("cache explain megatron-d", "eepspeed"),
        ("verify x.sif --recipe pytorch-d", "eepspeed"),
        ("help refr", "ame"),
        ("build mine/he", "llo.yaml"),
        ("build mine/hello.yaml --set greet.gr", "eeting="),
        ("build --recipes mine hel", "lo"),
        ("show --recipes mine --platform no", "where"),
        ("inspect mine/he", "llo.yaml"),
        ("build --recipes mi", "ne"),
        ("run x.sif -- python3 tra", "in.py"),
        ("job x.sif -- lumi-entry tra", "in.py"),
        ("job x.sif -- tra", "in.py"),
        ("job --nodes 2 x.sif -- tra", "in.py"),
        ("build pytorch -o tra", "in.py"),
        ("verify x.sif --html tra", "in.py"),
        ("init name --base-image tra", "in.py"),
    ],
)
def test_the_tabulator_completes(shell: Shell, typed: str, added: str) -> None:
    assert shell.completed(typed) == typed + added


def offered(lumicontainer: Run, *words: object) -> list[str]:
    done = succeeded(lumicontainer("completion", "names", *words))
    return done.stdout.splitlines()


def test_the_layers_of_the_recipe_alone_are_offered(lumicontainer: Run) -> None:
    every = offered(lumicontainer, "parameter", "build", "")
    of_one = offered(lumicontainer, "parameter", "build", "pytorch", "--set", "")
    assert "pytorch" in offered(lumicontainer, "recipe")
    assert "deepspeed.DS_BUILD_AIO=" in set(every) - set(of_one)
    assert "pytorch.index=" in set(every) & set(of_one)


def test_what_cannot_be_read_hides_no_other_name(lumicontainer: Run, tmp_path: Path) -> None:
    layer = tmp_path / "layers/broken/layer.yaml"
    layer.parent.mkdir(parents=True)
    layer.write_text("sumary: x\n")
    completed = offered(lumicontainer, "parameter", "build", "--recipes", tmp_path, "")
    assert "deepspeed.DS_BUILD_AIO=" in completed
    assert "pytorch" in offered(lumicontainer, "recipe", "build", "--recipes", "/nowhere", "")


def test_names_take_little_time(tmp_path: Path) -> None:
    """Somebody waits for them; other programs on the machine do not count."""
    command = [sys.executable, "-m", "lumicontainer", "completion", "names", "parameter", ""]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_names_of_no_kind_are_none(lumicontainer: Run) -> None:
    for words in ((), ("nothing",), ("nothing", "x")):
        assert succeeded(lumicontainer("completion", "names", *words)).stdout == ""
