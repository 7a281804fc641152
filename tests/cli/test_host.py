"""A host that cannot build is refused before anything is begun."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ..conftest import HELLO, ROOT, Write
from ..namespaces import ordinary, prepared
from ..programs import run
from .conftest import refused

Done = CompletedProcess[str]
PROGRAM = (sys.executable, "-m", "lumicontainer")
NO_NAMESPACES = [
    *("unshare", "--map-current-user", "--keep-caps", "bash", "-c"),
    'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"',
    "bash",
]
WITHOUT = 0 if os.getuid() else 1
"""The exit code of doctor without namespaces: an ordinary user can build with PRoot."""
HINT = "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"


def run_in(prefix: Sequence[str], *words: object, cache: str = "") -> Done:
    """Run a command by another that changes what it sees of this host, and without Docker."""
    env = {"LUMICONTAINER_CACHE": cache, "DOCKER_HOST": "unix:///nowhere"}
    return run([*prefix, *words], env=env)


def build_in(prefix: Sequence[str], recipes: Path) -> Done:
    words = (*PROGRAM, "build", "hello", "--recipes", recipes)
    options = ("--output", recipes / "x.sif", "--runtime", "namespaces")
    return run_in(prefix, *words, *options, cache=str(recipes / "cache"))


@pytest.mark.parametrize("name", ["subuid", "subgid"])
def test_a_user_without_a_range_of_ids_gets_the_file_to_change(write: Write, name: str) -> None:
    folder = write({**HELLO, f"etc/{name}": ""})
    # A mount on the file itself ends when another test adds a user, which replaces the file.
    hidden = prepared("mount", f"mount -t overlay none -o lowerdir={folder}/etc:/etc /etc")
    done = build_in(hidden, folder)
    hint = f"usermod --add-{name}s 100000-165535"
    refused(done, f"/etc/{name} has no range of subordinate ids for you", hint, code=3)
    report = run_in(hidden, *PROGRAM, "doctor")
    assert report.returncode == WITHOUT
    assert hint in report.stdout


def test_without_a_home_the_user_names_a_place_and_gets_no_folder_tilde(write: Write) -> None:
    folder = write(HELLO)
    unknown = ["unshare", "--map-user=54321", "env", f"--chdir={folder}"]
    nameless = [*unknown, "--unset=HOME", "--unset=XDG_CACHE_HOME"]
    nameless.append(f"LUMICONTAINER_TMPDIR={folder}")
    shown = run_in(nameless, *PROGRAM, "render", "hello", "--recipes", folder)
    assert (shown.returncode, shown.stderr) == (0, "")
    built = run_in(nameless, *PROGRAM, "build", "hello", "--recipes", folder)
    hint = "name a folder of yours with LUMICONTAINER_CACHE"
    refused(built, "cannot find a place for the cache", hint, code=3)
    assert "LUMICONTAINER_CACHE" in run_in(nameless, *PROGRAM, "doctor").stdout
    assert not (folder / "~").exists()


def test_the_doctor_reports_a_folder_that_the_user_cannot_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    prefix = [*ordinary(), "env", f"LUMICONTAINER_SHARED_CACHE={closed}/shared"]
    done = run_in(prefix, *PROGRAM, "doctor", cache=f"{closed}/cache")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"✗ cache: cannot write to the cache: {closed}/cache: Permission denied" in done.stdout
    assert "hint: name another place with LUMICONTAINER_CACHE" in done.stdout
    seen = f"cannot read or write this path: {closed}/shared: Permission denied"
    assert f"✗ shared cache: {seen}\n    hint: let your account read" in done.stdout


def test_where_no_user_namespace_can_be_made_the_hint_is_the_doctors(write: Write) -> None:
    done = build_in(NO_NAMESPACES, write(HELLO))
    refused(done, "this user cannot create user namespaces here", HINT, code=3)
    report = run_in(NO_NAMESPACES, *PROGRAM, "doctor")
    assert report.returncode == WITHOUT
    assert HINT in report.stdout


def test_where_proot_is_missing_the_hint_names_lumis_module(write: Write, tmp_path: Path) -> None:
    words = ("build", "hello", "--recipes", write(HELLO), "--runtime", "proot")
    place = tmp_path / "cache"
    start = ["env", f"PATH={tmp_path}", f"--chdir={tmp_path}"]
    done = run_in(start, *PROGRAM, *words, cache=str(place))
    hint = "hint: module load CrayEnv PRoot (on LUMI), or install the package proot"
    refused(done, "error: PRoot not found\n  where: PATH\n", hint, code=3)
    assert not list(place.glob("objects/*"))


def test_an_engine_is_not_ready_where_no_user_namespace_can_be_made() -> None:
    script = ROOT / "lumicontainer/host/scripts/install-engine.sh"
    done = run_in(NO_NAMESPACES, script)
    assert done.returncode == 3
    assert HINT in done.stderr
    assert "nothing to do" not in done.stderr


def test_a_host_without_squashfuse_can_build() -> None:
    programs = filter(None, map(shutil.which, ("squashfuse_ll", "squashfuse")))
    hidden = prepared("mount", " && ".join(f"mount --bind /dev/null {each}" for each in programs))
    report = run_in(hidden, *PROGRAM, "doctor")
    assert "· squashfuse_ll: not found" in report.stdout
    assert report.returncode == 0
