"""Folders that others could replace are not used: the kernel's answer to an attack shows it."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.building.image_place import check_output
from lumicontainer.errors import HostError, InputError
from lumicontainer.extending import extension
from lumicontainer.frontends.edf import SUFFIX, write_squashfs
from lumicontainer.frontends.owned import OwnFile, not_own
from lumicontainer.system.files import partial, trust

from ..conftest import HELLO, ROOT, Write
from ..integration.people import let_in
from ..namespaces import as_root
from ..programs import run
from ..unit.verify.test_inspect import HELLO as RECORD
from ..unit.verify.test_inspect import made

STRANGER = 65_533
"""The number of a user, and of its group, whom the host does not know."""


def lumicontainer(*words: object, **env: object) -> subprocess.CompletedProcess[str]:
    settings = {name: str(value) for name, value in env.items()}
    return run([sys.executable, "-m", "lumicontainer", *words], cwd=ROOT, env=settings)


def given_away(path: Path, *, group_alone: bool = False) -> None:
    """Give a path to the stranger, or to the stranger's group."""
    owner = f":{STRANGER}" if group_alone else f"{STRANGER}:{STRANGER}"
    done = run([*as_root(), "chown", "--no-dereference", owner, path])
    assert done.returncode == 0, done.stderr


def stranger(*command: object) -> bool:
    """Run a command as the stranger; return whether it succeeded."""
    who = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "--"]
    return run([*as_root(), *who, *command]).returncode == 0


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a folder that the stranger can look into."""
    let_in(tmp_path)
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("where", ["itself", "above"])
@pytest.mark.parametrize(
    ("mode", "of", "safe"),
    [
        (0o755, "me", True),
        (0o777, "me", False),
        (0o1777, "me", True),
        (0o755, "stranger", False),
        (0o1777, "stranger", False),
        (0o775, "group", False),
        (0o1775, "group", True),
        (0o755, "group", True),
    ],
)
def test_a_folder_is_refused_just_where_another_user_could_replace_what_lies_there(
    top: Path, where: str, mode: int, of: str, *, safe: bool
) -> None:
    folder = top if where == "itself" else top / "mine"
    (folder / "private").mkdir(parents=True, mode=0o700)
    (top / "mine").mkdir(exist_ok=True)
    top.chmod(mode)
    if of != "me":
        given_away(top, group_alone=of == "group")
        run([*as_root(), "chmod", f"{mode:o}", top])
    problem = trust.doubt(folder, "the cache", "LUMICONTAINER_CACHE")
    renamed = next(each for each in (top / "private", top / "mine") if each.exists())
    assert stranger("mv", renamed, top / "taken") is not safe
    assert (problem is None) is safe
    if problem:
        owner = STRANGER if of == "stranger" else ""
        assert str(top) in problem.why
        assert f"mode {mode:04o}, owner {owner}" in problem.why
        assert "LUMICONTAINER_CACHE" in problem.hint


def test_a_link_is_refused_just_where_another_user_can_turn_it_elsewhere(top: Path) -> None:
    top.chmod(0o1777)
    (top / "mine").mkdir()
    for name in ("own", "foreign"):
        (top / name).symlink_to("mine")
    given_away(top / "foreign")
    assert trust.doubt(top / "own", "the cache", "X") is None
    assert stranger("ln", "-sfn", "/var/tmp", top / "foreign")
    assert not stranger("ln", "-sfn", "/var/tmp", top / "own")
    assert trust.doubt(top / "foreign" / "below", "the cache", "X") is not None


def test_a_link_of_ones_own_does_not_hide_where_it_leads(top: Path, tmp_path: Path) -> None:
    (top / "mine").mkdir()
    top.chmod(0o777)
    (tmp_path / "link").symlink_to(Path("top", "mine"))
    problem = trust.doubt(tmp_path / "link", "the cache", "X")
    assert problem is not None
    assert f"chmod +t {top}, or" in problem.hint


def test_links_in_a_circle_are_left_to_who_opens_them(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert trust.doubt(tmp_path / "a", "the cache", "X") is None


def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        trust.make_private_folders(tmp_path / "new" / "cache")
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("new", "new/cache")]
    assert modes == [0o700, 0o700]


@pytest.mark.parametrize(
    ("mode", "of", "is_safe"),
    [
        (0o1777, "me", True),
        (0o1777, "stranger", False),
        (0o1775, "stranger", True),
        (0o755, "stranger", True),
    ],
)
def test_an_earlier_result_is_refused_just_where_a_stranger_can_have_put_it(
    top: Path, mode: int, of: str, *, is_safe: bool
) -> None:
    file = top / "small.sif"
    file.write_text("x")
    if of == "stranger":
        given_away(file)
    top.chmod(mode)
    problem = trust.doubt_output(file, "the image", "--output")
    assert (problem is None) is is_safe
    assert problem is None or f"owner {STRANGER}" in problem.why


@pytest.mark.parametrize(("mode", "is_safe"), [(0o755, True), (0o1777, False)])
def test_what_a_colleague_owns_is_used_just_where_strangers_cannot_write(
    top: Path, mode: int, *, is_safe: bool
) -> None:
    (top / "mine").mkdir()
    (top / "link").symlink_to("mine")
    given_away(top / "link")
    top.chmod(mode)
    assert (trust.doubt(top / "link", "the folder", "X", owners=False) is None) is is_safe
    given_away(top)
    run([*as_root(), "chmod", f"{mode:o}", top])
    assert (trust.doubt(top, "the folder", "X", owners=False) is None) is is_safe


@pytest.mark.parametrize(("mode", "is_safe"), [(0o755, True), (0o1775, True), (0o1777, False)])
def test_programs_are_written_just_where_a_stranger_cannot_add_some(
    top: Path, mode: int, *, is_safe: bool
) -> None:
    top.chmod(mode)
    assert stranger("touch", top / "ls") is not is_safe
    problems = list(not_own([OwnFile(top / "python"), OwnFile(top / "pip")], "hint"))
    assert [each.what for each in problems] == (
        [] if is_safe else ["cannot use this folder: others could add programs"]
    )


def test_a_copy_for_another_engine_is_not_taken_from_a_stranger(top: Path) -> None:
    image = made(top, json.dumps(RECORD))
    write_squashfs(image)
    top.chmod(0o1777)
    write_squashfs(image)
    given_away(image.with_name(f"{image.name}{SUFFIX}"))
    with pytest.raises(InputError, match="another user has put a file at the place of the copy"):
        write_squashfs(image)


@pytest.mark.parametrize("name", ["small.sif", "small.sqsh", "pylock.small.toml"])
def test_a_file_of_a_stranger_never_counts_as_the_result_of_an_earlier_call(
    top: Path, name: str
) -> None:
    (top / name).write_text("x")
    given_away(top / name)
    top.chmod(0o1777)
    with pytest.raises(InputError, match="another user has put a file at the place of"):
        if name == "small.sif":
            check_output(top / name)
        else:
            extension.check_output(top / "small.sqsh", ())


def test_an_extension_is_not_written_where_every_user_could_swap_it(top: Path) -> None:
    top.chmod(0o777)
    with pytest.raises(InputError, match="every user may write there, and it has no sticky bit"):
        extension.check_output(top / "small.sqsh", ())


def test_a_lock_that_a_stranger_holds_is_not_waited_for(top: Path) -> None:
    top.chmod(0o1777)
    names = [partial.LOCK, f"{partial.LOCK}.{os.geteuid()}"]
    for name in names:
        with (top / name).open("w") as held:
            given_away(top / name)
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                with partial.hold_folder(top):
                    assert name == names[0]
            except HostError as error:
                assert name == names[1]
                assert "it belongs to another user" in str(error)


@pytest.fixture
def opened(top: Path) -> Path:
    """Return a folder that every user may write to, without the sticky bit."""
    top.chmod(0o777)
    return top


def refused(done: subprocess.CompletedProcess[str], folder: Path, variable: str) -> None:
    assert done.returncode in (2, 3), done.stderr
    assert f"{folder}: every user may write there" in done.stderr
    assert variable in done.stderr
    assert done.stdout == ""
    assert list(folder.glob("[!o]*")) == []


@pytest.mark.parametrize("variable", ["LUMICONTAINER_TMPDIR", "TMPDIR", "LUMICONTAINER_CACHE"])
def test_a_build_refuses_an_open_folder_for_its_files_and_leaves_nothing_there(
    opened: Path, tmp_path: Path, write: Write, variable: str
) -> None:
    named = {"LUMICONTAINER_CACHE": tmp_path / "cache", variable: opened}
    output = tmp_path / "hello.sif"
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), "--output", output, **named)
    refused(done, opened, "LUMICONTAINER_")
    assert not output.exists()


def test_an_image_is_not_written_where_every_user_could_swap_it(opened: Path, write: Write) -> None:
    (opened / "out").mkdir()
    output = opened / "out" / "hello.sif"
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), "--output", output)
    refused(done, opened, "--output")


def test_a_colleague_may_own_the_folder_of_an_image(top: Path, write: Write) -> None:
    given_away(top)
    output = top / "hello.sif"
    recipes = write(HELLO)
    done = lumicontainer("build", "hello", "--recipes", recipes, "--output", output, "--dry-run")
    assert done.returncode == 0 or os.getuid(), done.stderr


@pytest.mark.parametrize(
    "words", [("list",), ("prune",), ("verify",), ("explain", "hello")], ids=" ".join
)
def test_every_use_of_a_cache_that_is_a_link_is_refused_with_the_folder_to_name(
    tmp_path: Path, write: Write, words: tuple[str, ...]
) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to("real")
    words = (*words, "--recipes", str(write(HELLO))) if "hello" in words else words
    done = lumicontainer("cache", *words, LUMICONTAINER_CACHE=tmp_path / "cache")
    assert done.returncode == 3, done.stderr
    assert f"where: {tmp_path / 'cache'}\n" in done.stderr
    assert f"export LUMICONTAINER_CACHE={tmp_path / 'real'}" in done.stderr
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.parametrize("open_", ["file", "folder"])
def test_mirrors_that_every_user_could_write_are_refused(
    tmp_path: Path, top: Path, write: Write, open_: str
) -> None:
    folder = top / "lumicontainer"
    folder.mkdir()
    (folder / "mirrors.yaml").write_text(f"https://example.org/: {tmp_path}/\n")
    (folder if open_ == "folder" else folder / "mirrors.yaml").chmod(0o777)
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), XDG_CONFIG_HOME=top)
    assert done.returncode == 3, done.stderr
    assert f"where: {folder / 'mirrors.yaml'}\n" in done.stderr
    assert "every user may write" in done.stderr


def test_the_doctor_says_what_is_wrong_with_an_open_temporary_folder(opened: Path) -> None:
    done = lumicontainer("doctor", LUMICONTAINER_TMPDIR=opened)
    assert f"{opened}: every user may write there" in done.stdout, done.stdout
