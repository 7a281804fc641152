"""Images are built by the real engine; what fails loses nothing and says how to go on."""

import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.host.site import debootstrap_mirror
from lumicontainer.system.files.user_cache import cache_root

from ..conftest import CHECK
from ..namespaces import owned, prepared
from .conftest import (
    DATA,
    ENGINE,
    SMALL,
    check_output,
    inside,
    lumicontainer,
    pasted,
    run,
    write_small,
)

INSTALL, FIRST_CHECK = "layers/greet/install.sh", "layers/greet/checks/greeting.sh"
MISSING = f"{CHECK}echo 'the greeting is missing'; exit 1\n"


@pytest.fixture
def old(small: Path, tmp_path: Path) -> Path:
    """Return a copy of the image, which a failing build must leave alone."""
    return Path(shutil.copy(small, tmp_path / "small.sif"))


def build(
    old: Path, changes: dict[str, str], *words: object, code: int = 0, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Build the recipe ``small`` with changes in the place of an image."""
    recipes = write_small(old.parent / "own", changes)
    always = ("build", "small", "--recipes", recipes, "--output", old)
    return lumicontainer(*always, *words, code=code, **settings)


def log_of(stderr: str) -> str:
    """Return the log that a message names."""
    return Path(re.search(r"the whole log: (\S+)", stderr).group(1)).read_text()


def test_values_and_files_of_a_layer_arrive_and_nothing_of_the_build_is_left(small: Path) -> None:
    assert inside(small, "cat", "/opt/greet/greeting") == "it's $(id) `id` %post {{ x }}"
    digest = inside(small, "sha256sum", "/opt/greet/data").split()[0]
    assert digest == hashlib.sha256(DATA).hexdigest()
    names = inside(small, "ls", "-A", "/opt/lumicontainer", "/var/lib/apt/lists", "/var/cache/apt")
    assert ".stage" not in names
    assert "Packages" not in names


def test_run_passes_the_exit_code_of_the_program(small: Path) -> None:
    assert lumicontainer("run", small, "--", "sh", "-c", "exit 7").returncode == 7


def test_inspect_prints_recipe_values_packages_and_definition(small: Path, recipes: Path) -> None:
    def inspect(*words: str) -> str:
        return lumicontainer("inspect", small, *words, code=0).stdout

    data = json.loads(inspect("--json"))
    assert data["recipe"] == "small"
    assert data["layers"]["greet"]["parameters"]["greeting"].startswith("it's")
    assert data["layers"]["greet"]["origins"]["greeting"] == "recipe"
    assert inspect("--recipe") == (recipes / "small.yaml").read_text()
    assert "# layer: greet" in inspect("--definition")
    for name in ("recipe", "definition"):
        assert json.loads(inspect(f"--{name}", "--json")) == {name: inspect(f"--{name}")}
    listed = inside(small, "dpkg-query", "-W", "-f", "${binary:Package} ${Version}\n").splitlines()
    packages = json.loads(inspect("--packages", "--json"))["system"]
    assert packages == dict(line.split() for line in listed)


def test_inspect_prints_when_the_file_was_written(small: Path) -> None:
    moment = f"{datetime.fromtimestamp(small.stat().st_mtime, UTC):%Y-%m-%dT%H:%MZ}"
    assert json.loads(lumicontainer("inspect", small, "--json", code=0).stdout)["written"] == moment
    assert f"written {moment}\n" in lumicontainer("inspect", small, code=0).stdout


def test_a_date_is_an_input_of_the_image_and_of_no_layer(old: Path, tmp_path: Path) -> None:
    # No cache has this layer.
    changes = {"layers/greet/new.txt": secrets.token_hex()}

    def made(date: str) -> tuple[set[str], bytes]:
        """Return the steps of a build, and the image."""
        done = build(old, changes, "--json", env={"SOURCE_DATE_EPOCH": date})
        return {*json.loads(done.stdout)["seconds"]}, old.read_bytes()

    steps, dated = made("1764322205")
    assert "greet" in steps
    listed = json.loads(check_output(ENGINE, "inspect", "--json", "--labels", old))
    label = listed["data"]["attributes"]["labels"]["org.label-schema.build-date"]
    assert label == "Friday_28_November_2025_9:30:5_UTC"
    assert json.loads(lumicontainer("inspect", old, "--json").stdout)["build_date"] == label
    assert f"build date {label}\n" in lumicontainer("inspect", old).stdout
    again = ("--recipes", tmp_path / "own", "--cached", "--output", tmp_path / "again.sif")
    lumicontainer("rebuild", old, *again, code=0)
    assert (tmp_path / "again.sif").read_bytes() == dated
    steps, undated = made("")
    assert "greet" not in steps
    assert b"build-date" not in undated
    assert made("1764322205") == (steps, dated)


def test_the_engine_reads_the_image_that_was_written(small: Path) -> None:
    listed = check_output(ENGINE, "sif", "list", small)
    for kind in ("Def.FILE", "JSON.Generic", "FS (Squashfs/*System/amd64)"):
        assert kind in listed
    labels = json.loads(check_output(ENGINE, "inspect", "--json", "--labels", small))
    assert labels["data"]["attributes"]["labels"]["org.opencontainers.image.title"]


def test_an_image_that_is_up_to_date_is_not_built(small: Path, recipes: Path) -> None:
    words = ("build", "small", "--recipes", recipes, "--json")
    done = lumicontainer(*words, cwd=small.parent, code=0)
    assert json.loads(done.stdout)["built"] is False


def test_layers_may_be_called_as_the_files_of_a_build_are(old: Path) -> None:
    names = ("idle", "lock", "logs", "sandbox", "shell")
    files = {"small.yaml": f"summary: x\nbase: tiny\nlayers: [{', '.join(names)}]\n"}
    for name in names:
        files[f"layers/{name}/layer.yaml"] = "summary: x\n"
        files[f"layers/{name}/install.sh"] = f"touch /opt/{name}\n"
    done = build(old, {**files, "layers/shell/install.sh": "exit 3\n"}, code=5)
    assert "the step 'shell' failed (exit code 3)" in done.stderr
    assert "lumicontainer debug small" in done.stderr
    build(old, files, "--no-verify")
    assert inside(old, "ls", "/opt").split() == sorted([*names, "lumicontainer"])


def test_what_a_user_laid_on_an_image_is_not_lost(recipes: Path, tmp_path: Path) -> None:
    image = tmp_path / "small.sif"
    words = ("build", "small", "--recipes", recipes, "--output", image, "--no-verify")
    lumicontainer(*words, code=0)
    check_output(ENGINE, "overlay", "create", "--size", "64", image)
    before = image.read_bytes()
    assert "is up to date" in lumicontainer(*words).stderr
    done = lumicontainer(*words, "--set", "greet.greeting=other", code=2)
    assert "the image has an overlay of yours" in done.stderr
    assert "not have its 64.0 MiB" in done.stderr
    assert image.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        pytest.param(
            {INSTALL: "touch /opt/.wh.hidden\n"},
            5,
            ["engines read names that begin with .wh. as removals", "/opt/.wh.hidden"],
            id="a name that engines take for a removal",
        ),
        pytest.param(
            {"layers/greet/compile.sh": 'ln -s /etc/hosts "$wheels/x.whl"\n'},
            5,
            ["'greet: compile' left unexpected files", "'/tmp/.lumicontainer/wheels/x.whl'"],
            id="a link in the place of a wheel",
        ),
        pytest.param(
            {
                "small.yaml": "summary: x\nbase: tiny\nlayers: [greet]\n",
                "layers/greet/layer.yaml": "summary: x\npackages:\n  apt: [libfabric-devel]\n",
            },
            2,
            [
                "Debian package 'libfabric-devel' not found in apt's sources",
                "greet/layer.yaml:3:9",
                "did you mean 'libfabric-dev'?",
            ],
            id="a package that apt does not know",
        ),
    ],
)
def test_what_no_image_can_have_is_reported_and_the_old_image_stays(
    old: Path, small: Path, changes: dict[str, str], code: int, words: list[str]
) -> None:
    done = build(old, changes, code=code)
    assert [word for word in words if word not in done.stderr] == [], done.stderr
    assert old.read_bytes() == small.read_bytes()


SLEEP = f"sleep {1_000_000 + os.getpid()}"
"""The command of no other test that runs on this machine."""
WRITES = f"""\
touch /opt/reached
echo begun
head -c 2G /dev/zero >/dev/null
exec {SLEEP}
"""
HANGS = f"""\
touch /opt/reached
echo begun
trap '' INT TERM HUP
setsid {SLEEP} &
while :; do :; done
"""


@pytest.mark.parametrize(
    ("script", "message", "log", "again", "code"),
    [
        pytest.param(
            "touch /opt/reached $TMPDIR/reached\nseq 1 30\necho 'no such flag' >&2\nexit 3\n",
            r"failed \(exit code 3\)\n +why: 12\n(.+\n)+ +no such flag\n",
            r"1\n2\n3\n",
            *("bash ./install.sh", 3),
            id="it fails",
        ),
        pytest.param(
            HANGS,
            r"printed nothing for 0.5 min and was ended\n +why: begun\n(.+\n)*"
            r".*running, .*: bash ./install.sh(?s:.*)export LUMICONTAINER_SILENCE=MINUTES",
            rf"(?s)begun\n.*ended after 0.5 min without output.*{SLEEP}",
            *("ls ./install.sh", 0),
            id="it hangs",
        ),
        pytest.param(
            WRITES,
            r"wrote more than 1.0 GiB and was ended\n +why: begun\n(.+\n)*"
            rf".*{SLEEP}(?s:.*)export LUMICONTAINER_STEP_GIB=GIB",
            rf"(?s)begun\n.*ended after it wrote 1.0 GiB.*{SLEEP}",
            *("ls ./install.sh", 0),
            id="it writes without end",
        ),
    ],
)
def test_a_step_that_fails_shows_its_end_its_log_and_a_shell_and_keeps_the_old_image(
    old: Path, small: Path, script: str, message: str, log: str, again: str, code: int
) -> None:
    # Another build of this name removes what is kept.
    place = old.parent / "place"
    place.mkdir()
    # More than it takes to unpack the base.
    limits = {"LUMICONTAINER_SILENCE": "0.5", "LUMICONTAINER_STEP_GIB": "1"}
    env = {**limits, "LUMICONTAINER_TMPDIR": str(place)}
    done = build(old, {INSTALL: script}, code=5, env=env)
    assert re.search(f"the step 'greet' {message}", done.stderr), done.stderr
    assert re.match(log, log_of(done.stderr))
    assert {path.name for path in old.parent.iterdir()} == {"own", "place", old.name}
    assert old.read_bytes() == small.read_bytes()
    assert SLEEP not in run(["ps", "-eo", "args"]).stdout

    assert "lumicontainer debug small" in done.stderr
    typed = f'ls /opt/reached; pwd; echo "$greeting"; ls -d "$TMPDIR"; {again}; echo code $?\n'
    opened = run(
        [sys.executable, "-m", "lumicontainer", "debug", "small"], env=env, stdin=typed
    ).stdout
    stage, value = "/opt/lumicontainer/.stage", "it's $(id) `id` %post {{ x }}"
    for each in ("/opt/reached", f"{stage}/layer", value, f"{stage}/tmp", f"code {code}"):
        assert f"{each}\n" in opened


def test_a_check_that_does_not_hold_keeps_the_old_image(old: Path, small: Path) -> None:
    # What image/files looks for in a build alone: a folder of the host that builds.
    leak = f"{SMALL[INSTALL]}echo {cache_root()} >/opt/leak\n"
    # Another build of this name removes what is kept.
    place = {"LUMICONTAINER_TMPDIR": str(old.parent)}
    done = build(old, {FIRST_CHECK: MISSING, INSTALL: leak}, code=1, env=place)
    assert "the check 'greet/greeting' failed: something holds" in done.stderr
    assert "hint: build it again" in done.stderr
    assert "the greeting is missing" in done.stderr
    assert old.read_bytes() == small.read_bytes()
    repeated = [pasted(each) for each in re.findall(r"repeat the check: (.+)", done.stderr)]
    assert [each.returncode for each in repeated] == [1, 1], [each.stderr for each in repeated]
    assert "failed   greet/greeting: the greeting is missing" in repeated[0].stdout
    assert "failed   image/files: " in repeated[1].stdout
    kept = Path(re.search(r"the image is kept: (\S+)", done.stderr).group(1))
    assert inside(kept, "cat", "/opt/greet/greeting")


def test_a_check_that_does_not_hold_is_reported_although_the_disk_is_full(
    old: Path, small: Path
) -> None:
    disk = old.parent / "disk"
    disk.mkdir()
    check = f"{CHECK}head --bytes=1G /dev/zero >{disk}/filled; exit 1\n"
    recipes = write_small(old.parent / "own", {FIRST_CHECK: check})
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"size=512m,{owned()}", "tmpfs", str(disk)])
    words = ("build", "small", "--recipes", recipes, "--output", old)
    program = [*prepared("mount", mount), sys.executable, "-m", "lumicontainer", *words]
    done = run(program, env={"LUMICONTAINER_TMPDIR": str(disk)})
    assert done.returncode == 1, done.stderr
    assert "the check 'greet/greeting' failed: something holds" in done.stderr
    assert f"the image is not kept: {disk}/" in done.stderr
    assert "repeat the check" not in done.stderr
    assert "No space left on device" in done.stderr
    assert old.read_bytes() == small.read_bytes()


def test_no_verify_keeps_an_image_that_fails_until_a_build_that_checks_it(
    old: Path, small: Path
) -> None:
    changes = {FIRST_CHECK: MISSING}
    assert "not checked: lumicontainer verify" in build(old, changes, "--no-verify").stderr
    kept = old.read_bytes()
    assert kept != small.read_bytes()
    assert "is up to date" in build(old, changes, "--no-verify").stderr
    build(old, changes, code=1)
    assert old.read_bytes() == kept


def test_a_check_that_this_machine_cannot_run_is_reported_each_time_and_hinders_nothing(
    old: Path,
) -> None:
    skips = f"{CHECK}echo 'no /dev/none: this machine has no such thing'; exit 77\n"
    for _ in range(2):
        old.unlink()
        stderr = build(old, {FIRST_CHECK: skips}).stderr
        assert "check skipped: greet/greeting: no /dev/none: this machine has no such" in stderr


def test_debootstrap_itself_names_a_mirror_for_a_host_that_names_none() -> None:
    assert re.match(r"https?://\S+/debian\b", debootstrap_mirror("bookworm"))
