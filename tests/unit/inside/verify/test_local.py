"""Without a launcher lumi-verify starts the ranks of a check itself, on the GPUs that are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ....namespaces import prepared
from .. import lumi_node
from .verifying import Image, Ran

SHOW = "import os; print(os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"


class Machine:
    """Be a machine with some GPUs, and an image for ROCm whose checks are ranks."""

    def __init__(self, root: Path, gpus: int) -> None:
        self.image = Image(root / "image")
        (self.image.home / "platform.json").write_text(json.dumps({"accelerator": "rocm"}))
        lumi_node.write(root, buses=lumi_node.BUSES[:gpus], copied=True)
        for file in root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"):
            # The devices of render nodes are this machine's own.
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(x for x in lines if not x.startswith("drm_render_minor")))
        self.before = prepared("mount", f"mount --bind {root / 'sys'} /sys")

    def run(self, *words: str) -> Ran:
        level = ("--level", "full", "--json", "-")
        return Ran(self.image.start(*level, *words, before=self.before))


@pytest.fixture
def one_gpu(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path, gpus=1)
    for name, needs in (("alone", {"tasks": 2}), ("on GPUs", {"gpus": 1, "tasks": 2})):
        machine.image.add(name, SHOW, runs="ranks", needs=needs)
    return machine


def test_where_ranks_would_share_a_gpu_those_run_that_need_none(one_gpu: Machine) -> None:
    ran = one_gpu.run()
    assert ran.states == {"alone": "passed", "on GPUs": "skipped"}, ran.stdout
    assert [row["rank"] for row in ran.check("alone")["ranks"]] == [0, 1]
    assert ran.check("on GPUs")["reason"] == "each of its 2 ranks needs a GPU, but there is 1"


def test_a_gpu_for_each_rank_can_be_required(one_gpu: Machine) -> None:
    ran = one_gpu.run("--require", "gpu")
    assert (ran.code, ran.states) == (1, {"alone": "passed", "on GPUs": "failed"})


def test_with_a_gpu_for_each_rank_all_ranks_run(tmp_path: Path) -> None:
    machine = Machine(tmp_path, gpus=3)
    machine.image.add("on GPUs", SHOW, runs="ranks", needs={"gpus": 1, "tasks": 2})
    ran = machine.run()
    assert ran.states == {"on GPUs": "passed"}, ran.stdout
    assert [row["rank"] for row in ran.check("on GPUs")["ranks"]] == [0, 1, 2]
