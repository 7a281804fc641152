"""The image of the first recipe really contains what the recipe says."""

import json
import os
import re
import sys
from pathlib import Path

from lumicontainer.core.catalog import open_catalog
from lumicontainer.host.site import pip_settings, read_site
from lumicontainer.inside.version_range import holds

from .conftest import ENGINE, check_output, inside, lumicontainer, run

WHERE = "import sys, torch; print(sys.prefix, torch.__file__)"
IN_VENV = """
set -e
python3 -m venv --without-pip --system-site-packages own
. own/bin/activate
python -c "$1"
printf '%s\nfrom torch.distributed import init_process_group as meet\nmeet("gloo")\n' "$1" >train.py
RANK=0 lumi-entry train.py
lumi-entry --launcher torchrun --nproc 2 train.py
deactivate
python3 -m venv --without-pip alone
! alone/bin/python -c 'import torch' 2>/dev/null
! /usr/bin/python3 -c 'import torch' 2>/dev/null
"""


def test_a_users_virtual_environment_has_the_packages_of_the_image_and_its_ranks_run_there(
    files: Path, tmp_path: Path
) -> None:
    script = f"cd {tmp_path}; {IN_VENV}"
    seen = inside(files, "bash", "-c", script, "bash", WHERE).splitlines()
    torch = "/opt/venv/lib/python3.11/site-packages/torch/__init__.py"
    assert seen == [f"{tmp_path}/own {torch}"] * 4


READS = """
import mmap, os, sys, torch
path = os.path.join(os.path.dirname(torch.__file__), "lib/libtorch_cpu.so")
with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
    print(*(name for name in sys.argv[1:] if library.find(name.encode() + b"\\0") >= 0))
"""


def test_the_flight_recorder_of_the_image_reads_the_variables_that_its_version_gets(
    files: Path,
) -> None:
    version = inside(files, "python3", "-c", "import torch; print(torch.__version__)")
    names = [
        row.name
        for row in open_catalog().platform("lumi-g").variables
        if row.name.startswith("TORCH_FR_") and holds(row.when["pytorch"], version)
    ]
    assert names == ["TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"]
    assert inside(files, "python3", "-c", READS, *names).split() == names


def test_ds_report_shows_exactly_the_ops_of_the_recipe_as_installed(
    image: Path, files: Path
) -> None:
    report = re.sub(r"\x1b\[[0-9;]*m", "", inside(files, "ds_report"))
    installed = set(re.findall(r"(?m)^(\w+) \.+ \[YES\]", report))
    listed = set(re.findall(r"(?m)^(\w+) \.+ \[(?:YES|NO)\]", report)) - {"ninja"}
    record = json.loads(lumicontainer("inspect", image, "--json").stdout)
    flags = record["layers"]["deepspeed"]["parameters"]
    ops = {
        name.removeprefix("DS_BUILD_").lower()
        for name, value in flags.items()
        if name.startswith("DS_BUILD_") and value is True
    }
    names = {"shm_comm": "deepspeed_shm_comm", "ccl_comm": "deepspeed_ccl_comm", "aio": "async_io"}
    assert ops == {"fused_adam", "cpu_adam", "shm_comm"}
    assert installed == {names.get(name, name) for name in ops}
    assert listed - installed, "ds_report lists ops that are not installed, too"


def test_inspect_lists_exactly_the_python_distributions_that_the_image_sees(
    image: Path, files: Path
) -> None:
    packages = json.loads(lumicontainer("inspect", image, "--packages", "--json").stdout)
    listed = json.loads(inside(files, "python3", "-m", "pip", "list", "--format", "json"))
    assert {each["name"]: each["version"] for each in listed} == packages["python"]


def test_nothing_of_the_site_or_the_host_is_left_in_the_image(files: Path, tmp_path: Path) -> None:
    pip = {name: value for name, value in pip_settings().items() if "/" in value}
    pip.pop("cert", None)
    checkout, builds = Path(__file__).parents[2], f"/lumicontainer-{os.getuid()}/"
    canaries = (*read_site("bookworm").folders, *pip.values(), checkout, builds)
    patterns = tmp_path / "patterns"
    patterns.write_text("".join(f"{each}\n" for each in canaries))
    assert run(["grep", "-rlF", "-f", patterns, files]).stdout.splitlines() == []


def test_the_engine_shows_what_the_image_is_and_how_it_starts(image: Path) -> None:
    labels = check_output(ENGINE, "inspect", image)
    assert "org.opencontainers.image.version: workstation\n" in labels
    assert "date" not in labels
    about = check_output(ENGINE, "run-help", image)
    assert about.startswith("pytorch-deepspeed: ")
    assert "singularity exec IMAGE lumi-entry train.py" in about


def test_a_command_that_the_image_lacks_ends_as_in_a_shell(image: Path) -> None:
    done = lumicontainer("run", image, "--", "no-such-program", code=127)
    assert "no-such-program" in done.stderr


def test_a_command_that_would_change_the_image_is_refused(image: Path) -> None:
    done = lumicontainer("run", image, "--", "pip", "install", "--user", "tabulate", code=2)
    assert "hint: lumicontainer extend IMAGE PACKAGE" in done.stderr


def test_modules_that_only_their_user_can_read_are_named(image: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "lumicontainer", "module", image, "--prefix", tmp_path / "site"]
    done = run(["sh", "-c", 'umask 077; exec "$@"', "sh", *words])
    assert done.returncode == 0, done.stderr
    assert f"hint: chmod -R go+rX {tmp_path}/site" in done.stderr
