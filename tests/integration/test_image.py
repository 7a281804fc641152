"""The image of the first recipe really contains what the recipe says."""

import json
import os
import re
from pathlib import Path

from lumicontainer.core.catalog import open_catalog
from lumicontainer.host.site import pip_settings, read_site
from lumicontainer.inside.version_range import holds

from .conftest import ENGINE, lumicontainer, run


def inside(files: Path, *command: object) -> str:
    done = run([ENGINE, "--silent", "exec", "--userns", files, *command])
    assert done.returncode == 0, done.stderr
    return done.stdout


def parameters(image: Path, layer: str) -> dict[str, object]:
    return json.loads(lumicontainer("inspect", image, "--json").stdout)["layers"][layer][
        "parameters"
    ]


WHERE = "import sys, torch; print(sys.prefix, torch.__file__)"
IN_VENV = """
set -e
python3 -m venv --without-pip --system-site-packages own
. own/bin/activate
python -c "$1"
printf '%s\nfrom torch.distributed import init_process_group as meet\nmeet("gloo")\n' "$1" >train.py
lumi-entry train.py
lumi-entry --launcher torchrun --nproc 2 train.py
deactivate
python3 -m venv --without-pip alone
! alone/bin/python -c 'import torch' 2>/dev/null
! /usr/bin/python3 -c 'import torch' 2>/dev/null
"""


def test_a_users_virtual_environment_has_the_packages_of_the_image_and_its_ranks_run_there(
    files: Path, tmp_path: Path
) -> None:
    command = ("bash", "-c", f"cd {tmp_path}; {IN_VENV}", "bash", WHERE)
    seen = inside(files, *command).splitlines()
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
    version = str(inside(files, "python3", "-c", "import torch; print(torch.__version__)"))
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
    flags = parameters(image, "deepspeed")
    wanted = {
        name.removeprefix("DS_BUILD_").lower()
        for name, value in flags.items()
        if name.startswith("DS_BUILD_") and value is True
    }
    names = {"shm_comm": "deepspeed_shm_comm", "ccl_comm": "deepspeed_ccl_comm", "aio": "async_io"}
    assert wanted == {"fused_adam", "cpu_adam", "shm_comm"}
    assert installed == {names.get(name, name) for name in wanted}
    assert listed - installed, "ds_report lists ops that are not installed, too"


def test_inspect_lists_exactly_the_python_distributions_that_the_image_sees(
    image: Path, files: Path
) -> None:
    packages = json.loads(lumicontainer("inspect", image, "--packages", "--json").stdout)
    listed = json.loads(inside(files, "python3", "-m", "pip", "list", "--format", "json"))
    assert {each["name"]: each["version"] for each in listed} == packages["python"]


def canaries() -> dict[str, str]:
    """Return what must not be in an image: of this host, its site, and this checkout."""
    site = read_site("bookworm")
    found = {f"folder {folder}": str(folder) for folder in site.folders}
    found |= {f"pip's {name}": value for name, value in pip_settings().items() if "/" in value}
    found["the checkout"] = str(Path(__file__).parents[2])
    found["the builds' folder"] = f"/lumicontainer-{os.getuid()}/"
    found.pop("pip's cert", None)
    return found


def test_nothing_of_the_site_or_the_host_is_left_in_the_image(files: Path, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns"
    patterns.write_text("\n".join(canaries().values()) + "\n")
    found = run(["grep", "-rlF", "-f", patterns, files]).stdout.splitlines()
    assert found == []


def test_the_hosts_certificates_are_not_the_images(files: Path) -> None:
    host = read_site("bookworm").trust
    assert host is not None
    bundle = (files / "etc/ssl/certs/ca-certificates.crt").read_bytes()
    certificates = re.findall(rb"-----BEGIN.*?-----END", host.read_bytes(), re.DOTALL)
    own = [each for each in certificates if each not in bundle]
    for path in files.rglob("*.crt"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            assert not [each for each in own if each in content], path


def test_the_mirror_of_the_build_is_not_the_mirror_of_the_image(files: Path) -> None:
    default = (files / "usr/share/doc/apt/examples/sources.list").read_text()
    assert (files / "etc/apt/sources.list").read_text() == default
    assert list((files / "var/lib/apt/lists").iterdir()) == []
    named = re.search(r"(?m)^deb (\S+) bookworm main", default)
    definition = (files / ".singularity.d/Singularity").read_text()
    assert named is not None
    assert f"MirrorURL: {named.group(1)}\n" in definition
