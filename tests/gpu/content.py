"""Write what ``run.sh`` needs on a machine with an NVIDIA GPU; ``make gpu`` calls it.

The folder gets what an image has in /opt/lumicontainer (lumi-entry, lumi-verify, checks and
records), DeepSpeed's source package, and the wheels that it needs.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from lumicontainer.constants import HOME, PROGRAMS
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.host.recipes import resolve_recipe

HERE = Path(__file__).parent
WHEELS = (
    *("annotated-types", "hjson", "py-cpuinfo", "pydantic", "pydantic-core"),
    "typing-inspection",
)
"""The packages that DeepSpeed needs and machines with PyTorch often lack."""


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="the Python of that machine")
    arguments = parser.parse_args()
    resolved = resolve_recipe(HERE / "nvidia.yaml", platform="nvidia")
    shutil.rmtree(arguments.folder, ignore_errors=True)
    write_content(resolved, arguments.folder / "lumicontainer")
    write_packages(resolved, arguments.folder / "packages", arguments.python)


def write_content(resolved: Resolved, home: Path) -> None:
    """Write the files of an image below its /opt/lumicontainer."""
    for file in planned(resolved).steps[-1].files:
        path = home / file.name.removeprefix(f"{HOME[1:]}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(file.mode)
    (home / "bin").mkdir()
    for program in PROGRAMS:
        (home / "lib/lumi_inside" / program).rename(home / "bin" / program)
    checks = home / "checks.json"
    rows = json.loads(checks.read_text())
    checks.write_text(json.dumps([for_one_gpu(row) for row in rows], indent=2))


def for_one_gpu(check: dict[str, Any]) -> dict[str, Any]:
    """Return a check that one rank can run, with no limits: NCCL takes one rank a GPU.

    The limits are for LUMI's GPUs.
    """
    needs = {name: value for name, value in check.get("needs", {}).items() if name != "tasks"}
    thresholds = {
        name: {key: value for key, value in row.items() if key not in ("minimum", "maximum")}
        for name, row in check.get("thresholds", {}).items()
    }
    return {**check, "needs": needs, "thresholds": thresholds}


def write_packages(resolved: Resolved, folder: Path, python: str) -> None:
    """Download DeepSpeed's source and the wheels that it needs, in the versions of its layer."""
    layer = next(each for each in resolved.layers if each.name == "deepspeed")
    pins = [line.split()[0] for line in layer.content.python]
    pins = [pin for pin in pins if pin.partition("==")[0] in WHEELS]
    assert len(pins) == len(WHEELS), pins
    download(folder, *pins, *("--only-binary=:all:", f"--python-version={python}"))
    download(folder, f"deepspeed=={layer.values()['version']}", "--no-binary=deepspeed")


def download(folder: Path, *words: str) -> None:
    """Download packages without what they need."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, *words], check=True)


if __name__ == "__main__":
    main()
