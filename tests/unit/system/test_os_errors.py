"""Errors of the system are reported with a hint, by the helper programs of a build, too."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError, SpaceError
from lumicontainer.system.os_errors import refused

from ...namespaces import prepared

pytestmark = pytest.mark.slow


def helper(name: str, tree: Path, limit: str = "unlimited") -> tuple[int, str]:
    """Run a helper program under a limit of a file's size; return its exit code and stderr."""
    folders = (tree, tree.parent / "state", tree.parent / "draft")
    module = [sys.executable, "-m", f"lumicontainer.sandbox.tree.{name}", *map(str, folders)]
    command = ["prlimit", f"--fsize={limit}", "--", *module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with a file, beside a folder for a draft."""
    for name in ("tree", "draft"):
        (tmp_path / name).mkdir()
    (tmp_path / "tree" / "file").write_text("content")
    return tmp_path / "tree"


def test_a_helper_that_cannot_write_ends_with_a_message_and_its_code(tree: Path) -> None:
    # A program finds its temporary folder by writing four bytes.
    code, message = helper("capture", tree, limit="4")
    assert code == 8
    assert message.startswith("error: cannot process the files of the build\n"), message
    assert "why: File too large\n" in message
    assert "which is 0 KiB: ulimit -f unlimited" in message


def test_a_helper_names_the_path_that_it_cannot_read(tree: Path) -> None:
    gone = tree.parent / "gone"
    code, message = helper("capture", gone)
    assert code == 3
    assert re.search(f"why: .*{re.escape(str(gone))}.*: No such file or directory\n", message)
    assert "Traceback" not in message


def test_a_bug_in_a_helper_is_one_line() -> None:
    program = "import sys; from lumicontainer.system.os_errors import run_guarded as run"
    command = [sys.executable, "-c", f"{program}; sys.exit(run(lambda: 1 / 0))"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert done.stderr.startswith("error: a bug in lumicontainer: ZeroDivisionError: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "kind", "hint"),
    [
        (errno.ENOSPC, SpaceError, "free some space\nname another"),
        (errno.EDQUOT, SpaceError, "free some space\nname another"),
        (errno.EFBIG, SpaceError, "ulimit -f unlimited\nname another"),
        (errno.EMFILE, HostError, "ulimit -n 4096\nname another"),
        (errno.EROFS, HostError, "name another"),
    ],
)
def test_a_refusal_has_a_code_and_a_hint(number: int, kind: type[HostError], hint: str) -> None:
    system = OSError(number, os.strerror(number), "/at")
    error = refused(system, "cannot write", hint="name another")
    assert type(error) is kind
    (problem,) = error.problems
    assert (problem.where, problem.why) == ("/at", os.strerror(number))
    assert problem.hint.endswith(hint)


RESULT = """
import os, sys
from pathlib import Path
from lumicontainer.errors import HostError
from lumicontainer.system.files.partial import hold_folder, partial_file
output, name = Path(sys.argv[1]), sys.argv[2]
before = len(os.listdir("/proc/self/fd"))
try:
    with partial_file(output) if name == "partial_file" else hold_folder(output.parent):
        pass
except HostError as error:
    print(error)
print(len(os.listdir("/proc/self/fd")) - before)
"""


@pytest.mark.parametrize("name", ["partial_file", "hold_folder"])
def test_a_folder_for_results_without_locks_is_refused_and_stays_clean(
    tmp_path: Path, name: str
) -> None:
    command = ["strace", "--quiet=all", "-o", "/dev/null", "-e", "inject=flock:error=ENOSYS"]
    command += [sys.executable, "-c", RESULT, str(tmp_path / "a.sif"), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "error: results cannot be kept apart",
        f"  where: {tmp_path}",
        "    why: the file system of this folder has no locks: Function not implemented",
        "   hint: name another --output",
        "0",
    ], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EACCES, "let your account read and write there"),
        (errno.ENOENT, "create what is missing"),
        (errno.ENOTDIR, "a part of the path is a file"),
        (errno.EROFS, "a file system that can be written"),
    ],
)
def test_a_refusal_has_a_general_hint_if_the_caller_has_none(number: int, hint: str) -> None:
    (problem,) = refused(OSError(number, os.strerror(number), "/at"), "cannot write").problems
    assert hint in problem.hint


def test_a_cache_on_a_file_system_that_is_read_only_is_refused_by_name(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    Cache(cache).open()
    setup = f"mount --bind {cache} {cache} && mount -o remount,bind,ro {cache}"
    command = [*prepared("mount", setup), sys.executable, "-m", "lumicontainer", "cache", "prune"]
    env = {**os.environ, "LUMICONTAINER_CACHE": str(cache)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines() == [
        "error: cannot write to the cache",
        f"  where: {cache}",
        "    why: Read-only file system",
        "   hint: name another place with LUMICONTAINER_CACHE",
    ]
