"""Run the checks of an image for LUMI-G on this machine's CPU, in the image that is built for it.

The container of the workstation's image is shown a LUMI-G node's /sys with few GPUs, and in the
place of its own record that of the image for LUMI-G: with its checks, as they are, but for the
second node that some need. LUMI_VERIFY_DEVICE=cpu has them compute on the CPU, with gloo.

A fault is a sitecustomize.py, a module that Python imports first, which breaks one thing of the
process that runs a check; or another node's files, another record, or a stand-in program.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lumicontainer.commands.context import resolved_recipe
from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.records import record_files

from ..conftest import ROOT
from ..programs import ONE_THREAD
from ..unit.inside import lumi_node

HOME = "/opt/lumicontainer"
GPUS = 2
RECIPE = """\
summary: all layers of images for LUMI-G that have checks
base: ubuntu
profiles: [rocm-6.4.4, rocm-7.0.2, rocm-5.7.0]
layers: [python, rocm, slingshot, mpich, rccl-plugin, rccl-tests, osu, pytorch, flash-attention,
  mpi4py, deepspeed, horovod, training-packages, apex, megatron]
"""
BEGINS = """\
import os, sys
if any(word.endswith("python_check.py") for word in sys.orig_argv):
"""


@dataclass
class Node:
    """Hold what is shown to the container; ``folder`` takes the files."""

    folder: Path
    gpus: int = GPUS
    module: str = "6.10.5"
    """The version of the driver's module; that of ROCm 6.3, as LUMI has it."""
    profile: str = "rocm-6.4.4"
    python: str = ""
    """What is done first in each process of Python that runs a check."""
    env: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[Path, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What every check is to say in the place of what it does."""
    parameters: Mapping[str, bool] = field(default_factory=dict)
    """DeepSpeed's, in the place of those of the image for LUMI-G."""
    known: int = GPUS
    """How many GPUs of a node the platform names."""

    def words(self) -> list[str]:
        """Lay all files out, and return the engine's words that put them in their places."""
        places = {self._sys(): "/sys", **self._record(), self._first(): "/faults", **self.binds}
        binds = [word for file, at in places.items() for word in ("--bind", f"{file}:{at}")]
        env = {**ONE_THREAD, "LUMI_VERIFY_DEVICE": "cpu", "PYTHONPATH": "/faults", **self.env}
        return [*binds, *(word for pair in env.items() for word in ("--env", "=".join(pair)))]

    def _sys(self) -> Path:
        root = self.folder / "node"
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
        return root / "sys"

    def _record(self) -> dict[Path, str]:
        root = self.folder / "record"
        for file in records(self.profile):
            path = root / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
        self._change(root / "platform.json", self._platform)
        self._change(root / "checks.json", self._checks)
        self._change(root / "resolved.json", self._resolved)
        return {
            root / name: f"{HOME}/{name}"
            for name in ("checks", "checks.json", "platform.json", "resolved.json", "drivers.json")
        }

    @staticmethod
    def _change(path: Path, change: Any) -> None:
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    def _platform(self, platform: dict[str, Any]) -> dict[str, Any]:
        """Return a platform whose CCDs are the cores of this machine, one each."""
        cores = sorted(os.sched_getaffinity(0))
        gpus = platform["gpus"][: self.known]
        for number, row in enumerate(gpus):
            row["cores"] = str(cores[number % len(cores)])
            del row["reserved"]
        return {**platform, "gpus": gpus}

    def _resolved(self, resolved: dict[str, Any]) -> dict[str, Any]:
        if self.parameters:
            resolved["layers"]["deepspeed"]["parameters"] = dict(self.parameters)
        return resolved

    def _checks(self, checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for row in checks:
            row.get("needs", {}).pop("nodes", None)
            row.update(self.changes)
        return checks

    def _first(self) -> Path:
        folder = self.folder / "first"
        folder.mkdir(exist_ok=True)
        if self.python:
            body = textwrap.indent(textwrap.dedent(self.python), "    ")
            (folder / "sitecustomize.py").write_text(BEGINS + body)
        return folder


@lru_cache
def records(profile: str) -> tuple[LayerFile, ...]:
    """Return what an image for LUMI-G with all of these layers records of itself."""
    own = Path(os.environ.get("TMPDIR", "/tmp")) / f"lumi-faults-{os.getpid()}"
    own.mkdir(exist_ok=True)
    try:
        (own / "everything.yaml").write_text(RECIPE)
        _write_older_rocm(own)
        asked = Namespace(
            recipes=own, profile=profile, recipe="everything", platform="lumi-g", options=()
        )
        return tuple(record_files(resolved_recipe(asked)))
    finally:
        shutil.rmtree(own)


def _write_older_rocm(own: Path) -> None:
    """Write a profile with a ROCm that LUMI's driver no longer serves, which no profile names."""
    shutil.copytree(ROOT / "recipes/layers/rocm", own / "layers/rocm")
    layer, known = own / "layers/rocm/layer.yaml", 'versions: {"6.4.4"'
    layer.write_text(layer.read_text().replace(known, 'versions: {"5.7.0": {}, "6.4.4"'))
    chosen = 'provider: amd, version: "6.4.4"'
    profile = (ROOT / "recipes/profiles/rocm-6.4.4.yaml").read_text()
    (own / "profiles").mkdir()
    (own / "profiles/rocm-5.7.0.yaml").write_text(
        profile.replace(chosen, chosen.replace("6.4.4", "5.7.0"))
    )


def verify(
    engine: str,
    image: Path,
    node: Node,
    *names: str,
    edit: Callable[[Path], object] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run checks by their names; return what came of each. ``edit`` changes the node's files."""
    chosen = [word for name in names for word in ("-k", name)]
    words = node.words()
    if edit:
        edit(node.folder / "node")
    command = [engine, "exec", "--userns", *words, image, "lumi-verify", "--json", "-", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["checks"]}
