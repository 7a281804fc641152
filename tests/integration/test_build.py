"""Images are built by the real engine; what fails loses nothing and says how to go on."""

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.host.site import debootstrap_mirror
from lumicontainer.system.files.user_cache import cache_root

from ..conftest import CHECK
from ..namespaces import owned, prepared
from .conftest import DATA, ENGINE, SMALL, lumicontainer, pasted, run, write_small


def inside(image: Path, *command: object) -> str:
    done = lumicontainer("run", image, "--", *command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_value_with_shell_characters_arrives_as_that_value(small: Path) -> None:
    assert inside(small, "cat", "/opt/greet/greeting") == "it's $(id) `id` %post {{ x }}"


def test_a_file_of_the_layer_arrives_byte_for_byte(small: Path) -> None:
    digest = inside(small, "sha256sum", "/opt/greet/data").split()[0]
    assert digest == hashlib.sha256(DATA).hexdigest()


def test_the_step_leaves_nothing_of_the_build(small: Path) -> None:
    names = inside(small, "ls", "-A", "/opt/lumicontainer", "/var/lib/apt/lists", "/var/cache/apt")
    assert ".stage" not in names
    assert "Packages" not in names


def test_the_environment_of_the_layers_holds_in_every_way_of_entering(small: Path) -> None:
    for options in ([], ["--cleanenv"], ["--containall"], ["--no-home"]):
        command = [ENGINE, "--silent", "exec", "--userns", *options, small]
        done = run([*command, "sh", "-c", "echo $GREETING_STYLE $PATH"])
        assert done.stdout.startswith("plain /opt/greet/bin:"), (options, done)


def test_run_passes_the_exit_code_of_the_program(small: Path) -> None:
    assert lumicontainer("run", small, "--", "sh", "-c", "exit 7").returncode == 7


def test_inspect_prints_recipe_values_packages_and_definition(small: Path, recipes: Path) -> None:
    data = json.loads(lumicontainer("inspect", small, "--json").stdout)
    assert data["recipe"] == "small"
    assert data["layers"]["greet"]["parameters"]["greeting"].startswith("it's")
    assert data["layers"]["greet"]["origins"]["greeting"] == "recipe"
    recipe = lumicontainer("inspect", small, "--recipe").stdout
    assert recipe == (recipes / "small.yaml").read_text()
    printed = json.loads(lumicontainer("inspect", small, "--recipe", "--json").stdout)
    assert printed == {"recipe": recipe}
    packages = json.loads(lumicontainer("inspect", small, "--packages", "--json").stdout)
    listed = inside(small, "dpkg-query", "-W", "-f", "${binary:Package} ${Version}\n").splitlines()
    assert packages["system"] == dict(line.split() for line in listed)
    definition = lumicontainer("inspect", small, "--definition").stdout
    assert "# layer: greet" in definition
    printed = json.loads(lumicontainer("inspect", small, "--definition", "--json").stdout)
    assert printed == {"definition": definition}


def test_the_engine_reads_the_image_that_was_written(small: Path) -> None:
    listed = run([ENGINE, "sif", "list", small]).stdout
    for kind in ("Def.FILE", "JSON.Generic", "FS (Squashfs/*System/amd64)"):
        assert kind in listed
    labels = run([ENGINE, "inspect", "--json", "--labels", small]).stdout
    assert json.loads(labels)["data"]["attributes"]["labels"]["org.opencontainers.image.title"]


def test_nothing_is_built_twice_and_a_change_is_seen(small: Path, recipes: Path) -> None:
    words = ("build", "small", "--recipes", recipes, "--json")
    data = json.loads(lumicontainer(*words, cwd=small.parent).stdout)
    assert data["built"] is False
    changed = json.loads(
        lumicontainer(*words, "--set", "greet.greeting=x", "--dry-run", cwd=small.parent).stdout
    )
    assert changed["steps"][-1]["key"] != data["key"]


def test_layers_may_be_called_as_the_files_of_a_build_are(tmp_path: Path) -> None:
    names = ("sandbox", "lock", "logs", "idle")
    files = {"small.yaml": f"summary: x\nbase: tiny\nlayers: [{', '.join(names)}, shell]\n"}
    for name in names:
        files[f"layers/{name}/layer.yaml"] = "summary: x\n"
        files[f"layers/{name}/install.sh"] = f"set -euo pipefail\ntouch /opt/{name}\n"
    files["layers/shell/layer.yaml"] = "summary: x\n"
    files["layers/shell/install.sh"] = "set -euo pipefail\nls /opt\nexit 3\n"
    folder = write_small(tmp_path / "own", files)
    words = ("--recipes", folder, "--output", tmp_path / "x.sif", "--no-verify")
    done = lumicontainer("build", "small", *words)
    assert done.returncode == 5, done.stderr
    assert "the step 'shell' failed (exit code 3)" in done.stderr
    assert f"why: {sorted(names)[0]}" in done.stderr
    assert "lumicontainer debug small" in done.stderr
    (folder / "layers/shell/install.sh").write_text("set -euo pipefail\n")
    assert lumicontainer("build", "small", *words).returncode == 0
    assert inside(tmp_path / "x.sif", "ls", "/opt").split() == sorted([*names, "lumicontainer"])


def test_what_a_user_laid_on_an_image_is_not_lost(
    small: Path, recipes: Path, tmp_path: Path
) -> None:
    image = tmp_path / "small.sif"
    words = ("build", "small", "--recipes", recipes, "--output", image, "--pack", "flat")
    words = (*words, "--no-verify")
    assert lumicontainer(*words).returncode == 0
    made = run([ENGINE, "overlay", "create", "--size", "64", image])
    assert made.returncode == 0, made.stderr
    before = image.read_bytes()
    assert "is up to date" in lumicontainer(*words).stderr
    done = lumicontainer(*words, "--set", "greet.greeting=other")
    assert done.returncode == 2
    assert "the image has an overlay of yours" in done.stderr
    assert "not have its 64.0 MiB" in done.stderr
    assert image.read_bytes() == before
    assert lumicontainer("inspect", image, "--json").returncode == 0


def copied(small: Path, folder: Path) -> tuple[Path, bytes]:
    """Return a copy of the image that a failing build must leave alone, and its bytes."""
    image = folder / "small.sif"
    image.write_bytes(small.read_bytes())
    return image, image.read_bytes()


def test_a_failing_script_shows_its_end_its_log_and_a_shell_and_keeps_the_old_image(
    small: Path, tmp_path: Path
) -> None:
    script = "set -euo pipefail\ntouch /opt/reached $TMPDIR/reached\nseq 1 30\n"
    script += "echo 'no such flag' >&2\nexit 3\n"
    folder = write_small(tmp_path / "own", {"layers/greet/install.sh": script})
    image, before = copied(small, tmp_path)
    done = lumicontainer("build", "small", "--recipes", folder, "--output", image)
    assert done.returncode == 5
    assert "the step 'greet' failed (exit code 3)" in done.stderr
    shown = done.stderr.split("why: ")[1]
    assert "12\n" in shown
    assert "\n         11\n" not in shown
    assert "no such flag" in shown
    assert image.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []

    log = Path(re.search(r"the whole log: (\S+)", done.stderr).group(1))
    assert log.read_text().startswith("1\n2\n3\n")
    assert "lumicontainer debug small" in done.stderr
    asked = 'ls /opt/reached; pwd; echo "$greeting"; bash ./install.sh; echo code $?\n'
    opened = run([sys.executable, "-m", "lumicontainer", "debug", "small"], stdin=asked)
    assert "/opt/reached" in opened.stdout, opened.stderr
    assert "/opt/lumicontainer/.stage/layer" in opened.stdout
    assert "it's $(id) `id` %post {{ x }}" in opened.stdout
    assert "code 3" in opened.stdout


def test_a_step_that_hangs_is_ended_with_its_stacks_named_and_kept_for_a_look(
    small: Path, tmp_path: Path
) -> None:
    script = (
        "touch /opt/reached\necho begun\ntrap '' INT TERM HUP\n"
        "setsid sleep 54321 &\nwhile :; do :; done\n"
    )
    folder = write_small(tmp_path / "own", {"layers/greet/install.sh": script})
    image, before = copied(small, tmp_path)
    limit = {"LUMICONTAINER_SILENCE": "0.1"}
    done = lumicontainer("build", "small", "--recipes", folder, "--output", image, env=limit)
    assert done.returncode == 5, done.stderr
    assert (
        "the step 'greet' printed nothing for 0.1 min and was ended\n    why: begun" in done.stderr
    )
    for pattern in (
        r"running, .*: bash ./install.sh",
        r"sleeping, .*: sleep 54321",
        r"in the kernel: ",
    ):
        assert re.search(pattern, done.stderr), done.stderr
    assert "export LUMICONTAINER_SILENCE=MINUTES" in done.stderr
    assert image.read_bytes() == before

    log = Path(re.search(r"the whole log: (\S+)", done.stderr).group(1))
    assert re.search(
        r"(?s)\Abegun\n.*ended after 0.1 min without output.*sleep 54321", log.read_text()
    )
    assert "sleep 54321" not in run(["ps", "-eo", "args"]).stdout
    command = [sys.executable, "-m", "lumicontainer", "debug", "small"]
    assert "/opt/reached" in run(command, stdin="ls /opt/reached\n").stdout


def test_a_check_that_does_not_hold_keeps_the_old_image(small: Path, tmp_path: Path) -> None:
    script = SMALL["layers/greet/install.sh"]
    changes = {
        "layers/greet/checks/greeting.sh": f"{CHECK}echo 'the greeting is missing'; exit 1\n",
        # What image/files looks for in a build alone: a folder of the host that builds.
        "layers/greet/install.sh": f"{script}echo {cache_root()} >/opt/leak\n",
    }
    folder = write_small(tmp_path / "own", changes)
    image, before = copied(small, tmp_path)
    words = ("build", "small", "--recipes", folder, "--output", image)
    # Another build of this name removes what is kept.
    place = {"LUMICONTAINER_TMPDIR": str(tmp_path)}
    done = lumicontainer(*words, env=place)
    assert done.returncode == 1
    assert "the check 'greet/greeting' failed: something holds" in done.stderr
    assert "hint: build it again" in done.stderr
    assert "the greeting is missing" in done.stderr
    assert image.read_bytes() == before
    commands = re.findall(r"repeat the check: (.+)", done.stderr)
    found = [pasted(command) for command in commands]
    assert [each.returncode for each in found] == [1, 1], [each.stderr for each in found]
    assert "failed   greet/greeting: the greeting is missing" in found[0].stdout
    assert "failed   image/files: " in found[1].stdout
    kept = re.search(r"the image is kept: (\S+)", done.stderr).group(1)
    assert lumicontainer("run", kept, "--", "cat", "/opt/greet/greeting").returncode == 0


def test_a_check_that_does_not_hold_is_reported_although_the_disk_is_full(
    small: Path, tmp_path: Path
) -> None:
    image, before = copied(small, tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    check = f"{CHECK}head --bytes=1G /dev/zero >{disk}/filled; exit 1\n"
    folder = write_small(tmp_path / "own", {"layers/greet/checks/greeting.sh": check})
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"size=512m,{owned()}", "tmpfs", str(disk)])
    words = ("build", "small", "--recipes", folder, "--output", image)
    program = [*prepared("mount", mount), sys.executable, "-m", "lumicontainer", *words]
    done = run(program, env={"LUMICONTAINER_TMPDIR": str(disk)})
    assert done.returncode == 1, done.stderr
    assert "the check 'greet/greeting' failed: something holds" in done.stderr
    assert f"the image is not kept: {disk}/" in done.stderr
    assert "repeat the check" not in done.stderr
    assert "No space left on device" in done.stderr
    assert image.read_bytes() == before


def test_no_verify_keeps_an_image_that_fails_until_a_build_that_checks_it(
    small: Path, tmp_path: Path
) -> None:
    check = f"{CHECK}echo 'the greeting is missing'; exit 1\n"
    folder = write_small(tmp_path / "own", {"layers/greet/checks/greeting.sh": check})
    image, before = copied(small, tmp_path)
    command = ("build", "small", "--recipes", folder, "--output", image)
    done = lumicontainer(*command, "--no-verify")
    assert done.returncode == 0, done.stderr
    assert "not checked: lumicontainer verify" in done.stderr
    assert image.read_bytes() != before
    kept = image.read_bytes()
    assert "is up to date" in lumicontainer(*command, "--no-verify").stderr
    assert lumicontainer(*command).returncode == 1
    assert image.read_bytes() == kept


def test_a_check_that_this_machine_cannot_run_is_reported_each_time_and_hinders_nothing(
    small: Path, tmp_path: Path
) -> None:
    check = f"{CHECK}echo 'no /dev/none: this machine has no such thing'; exit 77\n"
    folder = write_small(tmp_path / "own", {"layers/greet/checks/greeting.sh": check})
    command = ("build", "small", "--recipes", folder, "--output", tmp_path / "small.sif")
    skipped = "check skipped: greet/greeting: no /dev/none: this machine has no such thing\n"
    for _ in range(2):
        done = lumicontainer(*command)
        assert done.returncode == 0, done.stderr
        assert skipped in done.stderr
        (tmp_path / "small.sif").unlink()


def test_debootstrap_itself_names_a_mirror_for_a_host_that_names_none() -> None:
    assert re.match(r"https?://\S+/debian\b", debootstrap_mirror("bookworm"))


ENDLESS = {"layers/greet/install.sh": "echo begun\nexec tail -f /dev/null\n"}


def begun(folder: Path, image: Path, place: Path, *prefix: str) -> subprocess.Popen[str]:
    """Start a build, and return once its first program has said something."""
    place.mkdir()
    command = [*prefix, sys.executable, "-m", "lumicontainer", "build", "small"]
    build = subprocess.Popen(
        [*command, "--recipes", folder, "--output", image],
        env={**os.environ, "LUMICONTAINER_TMPDIR": str(place)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = None
    while log is None or not log.stat().st_size:
        assert build.poll() is None, build.stderr.read()
        log = next(place.glob("*/small-*/logs/greet.log"), None)
    return build


def test_a_build_whose_terminal_closes_leaves_the_old_image_and_nothing_else(
    small: Path, tmp_path: Path
) -> None:
    folder = write_small(tmp_path / "own", ENDLESS)
    image, before = copied(small, tmp_path)
    with begun(folder, image, tmp_path / "place") as build:
        build.send_signal(signal.SIGHUP)
        stderr = build.stderr.read()
        assert build.wait() == 130
    assert "interrupted" in stderr
    assert image.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "place", "small.sif"]
    assert [path.name for path in (tmp_path / "place").glob("*/*")] == [".guard"]


def test_a_build_under_nohup_outlives_its_terminal(small: Path, tmp_path: Path) -> None:
    folder = write_small(tmp_path / "own", ENDLESS)
    image, _ = copied(small, tmp_path)
    with begun(folder, image, tmp_path / "place", "nohup") as build:
        build.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            build.wait(timeout=2)
        build.send_signal(signal.SIGTERM)
        build.stderr.read()
        assert build.wait() == 130
