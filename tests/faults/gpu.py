"""Run the checks of an image for LUMI-G on this machine's CPU, in the image that is built for it.

The container of the workstation's image is shown a LUMI-G node's /sys with few GPUs, and in the
place of its own record that of the image for LUMI-G: with its checks, as they are, but for the
second node that some need. LUMI_VERIFY_DEVICE=cpu has them compute on the CPU, with gloo.

A fault is a sitecustomize.py, a module that Python imports first, which breaks one thing of the
process that runs a check; or another node's files, another record, or a stand-in program.
"""

import json
import os
import subprocess
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lumicontainer.api import resolve
from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.records import record_files

from ..integration.conftest import ENGINE
from ..programs import ONE_THREAD
from ..unit.inside import lumi_node

HOME = "/opt/lumicontainer"
GPUS = 2
RECIPE = """\
summary: all layers of images for LUMI-G that have checks
base: ubuntu
profiles: [rocm-6.4.4]
layers: [python, rocm, slingshot, mpich, rccl-plugin, rccl-tests, osu, pytorch, flash-attention,
  mpi4py, deepspeed, horovod, training-packages, bitsandbytes, apex, megatron]
"""
RULES = """\
rules:
  - {id: driver, level: error, when: {driver: "7.1", rocm: any}, message: the driver serves no ROCm,
    reason: a test says so, source: a test, hint: take another driver}
"""
BEGINS = """\
import os, sys
if any(word.endswith("python_check.py") for word in sys.orig_argv):
"""


@dataclass
class Node:
    """Hold how a node and an image differ from those that are well."""

    python: str = ""
    """Code that runs first in each process of Python that runs a check."""
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: int = GPUS
    known: int = GPUS
    """How many GPUs of a node the platform names."""
    module: str = "6.10.5"
    """The version of the driver's module; that of ROCm 6.3, as LUMI has it."""
    binds: Mapping[Path, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The output of every check in place of its work."""
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Checks of layers, in place of the ones of the image for LUMI-G."""
    edit: tuple[str, str, str] | None = None
    """A file of the node, a text in it, and what takes its place."""

    def words(self, folder: Path) -> list[str]:
        """Lay all files out below a folder, and return the engine's words that bind them."""
        first = folder / "first"
        first.mkdir()
        if self.python:
            body = textwrap.indent(self.python, "    ")
            (first / "sitecustomize.py").write_text(BEGINS + body)
        places = {**self._sys(folder / "node"), **self._record(folder / "record")}
        binds = {**places, first: "/faults", **self.binds}
        env = {**ONE_THREAD, "LUMI_VERIFY_DEVICE": "cpu", "PYTHONPATH": "/faults", **self.env}
        words = [word for file, at in binds.items() for word in ("--bind", f"{file}:{at}")]
        return [*words, *(word for pair in env.items() for word in ("--env", "=".join(pair)))]

    def _sys(self, root: Path) -> dict[Path, str]:
        lumi_node.write(root, buses=lumi_node.BUSES[: self.gpus], copied=True)
        for file in root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"):
            # Nodes of devices are this machine's own.
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(x for x in lines if not x.startswith("drm_render_minor")))
        for device in root.glob("sys/devices/pci*/*/*"):
            # Gloo reads of each device what it is.
            (device / "class").write_text("0x038000\n")
        for core in os.sched_getaffinity(0):
            cache = root / f"sys/devices/system/cpu/cpu{core}/cache/index3/shared_cpu_list"
            cache.write_text(str(core))
        module = root / "sys/module/amdgpu/version"
        module.parent.mkdir(parents=True)
        module.write_text(f"{self.module}\n")
        if self.edit:
            name, old, new = self.edit
            text = (root / name).read_text()
            assert old in text
            (root / name).write_text(text.replace(old, new))
        return {root / "sys": "/sys"}

    def _record(self, root: Path) -> dict[Path, str]:
        names = ("platform.json", "checks.json", "resolved.json")
        content = {file.name: file.content for file in records()}
        platform, checks, resolved = changed = [json.loads(content[name]) for name in names]
        # The CCDs are the cores of this machine, one each.
        cores = sorted(os.sched_getaffinity(0))
        platform["gpus"] = platform["gpus"][: self.known]
        for number, row in enumerate(platform["gpus"]):
            row["cores"] = str(cores[number % len(cores)])
            del row["reserved"]
        for row in checks:
            row.get("needs", {}).pop("nodes", None)
            row.update(self.changes)
        for layer, each in self.parameters.items():
            resolved["layers"][layer]["parameters"] = dict(each)
        content |= {
            name: json.dumps(each).encode() for name, each in zip(names, changed, strict=True)
        }
        for name, each in content.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(each)
        return {root / name: f"{HOME}/{name}" for name in ("checks", "drivers.json", *names)}


@cache
def records() -> tuple[LayerFile, ...]:
    """Return what an image for LUMI-G with all of these layers records of itself."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder)
        (own / "everything.yaml").write_text(RECIPE)
        (own / "rules.yaml").write_text(RULES)
        return tuple(
            record_files(
                resolve("everything", platform="lumi-g", profile="rocm-6.4.4", recipes=own)
            )
        )


def verify(image: Path, folder: Path, node: Node, *names: str) -> dict[str, dict[str, Any]]:
    """Run checks by their names, with their files in a folder; return what came of each."""
    chosen = [word for name in names for word in ("-k", name)]
    words = ["--userns", *node.words(folder), image, "lumi-verify", "--json", "-", *chosen]
    done = subprocess.run([ENGINE, "exec", *words], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["checks"]}
