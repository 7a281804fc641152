"""Without a launcher lumi-verify starts the ranks of a check itself, on the GPUs that are there."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from ....namespaces import prepared
from .. import lumi_node
from ..conftest import PATH
from .verifying import HANG, HANGS, SECONDS, Image, Ran, awaited

pytestmark = pytest.mark.slow

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


CACHES = [{"name": "TRITON_CACHE_DIR", "folder": "triton", "storage": "node", "reason": "quota"}]
FILLS = "import os, sys, time\nopen(os.environ['TRITON_CACHE_DIR'] + '/kernel', 'w').close()\n"
ALL_HANG = FILLS + HANGS
ONE_HANGS = ALL_HANG.replace("\nthe_place()", "\nif os.environ['RANK'] == '1': the_place()")
MPIEXEC = """\
#!/bin/bash
# Starts two ranks, and kills the other one when one fails.
shift 2
trap 'kill -KILL $(jobs -p) 2>/dev/null' EXIT
for rank in 0 1; do PMI_RANK=$rank PMI_SIZE=2 MPI_LOCALRANKID=$rank MPI_LOCALNRANKS=2 "$@" & done
wait -n && wait -n
"""


DEEP = f"""
import os, threading, time

def deep(left):
    deep(left - 1) if left else {HANG}

for _ in range(40):
    threading.Thread(target=deep, args=[49]).start()
"""


def with_caches(folder: Path) -> tuple[Image, Path]:
    """Return an image whose ranks have a cache on their node, and that node's folder for it."""
    image, node = Image(folder / "image"), folder / "node"
    node.mkdir(mode=0o700)
    (image.home / "platform.json").write_text(json.dumps({"name": "x", "caches": CACHES}))
    return image, node


def write_mpiexec(folder: Path) -> None:
    (folder / "mpiexec").write_text(MPIEXEC)
    (folder / "mpiexec").chmod(0o755)


@pytest.mark.parametrize(
    ("script", "state"),
    [
        (FILLS, "passed"),
        (FILLS + "sys.exit('broken')\n", "failed"),
        (FILLS + "os.kill(os.getpid(), 11)\n", "error"),
        (ALL_HANG, "failed"),
        (ONE_HANGS, "failed"),
    ],
    ids=["holds", "fails", "crashes", "hangs", "one hangs"],
)
@pytest.mark.parametrize("started", ["by hand", "by srun", "by mpiexec"])
def test_ranks_leave_no_caches_on_their_node(
    tmp_path: Path, script: str, state: str, started: str
) -> None:
    image, node = with_caches(tmp_path)
    write_mpiexec(tmp_path)
    needs = {"tasks": 2, "mpi": started == "by mpiexec"}
    image.end_only_what_hangs(threads=2 if script == ALL_HANG else 1)
    image.add("ranks", script, runs="ranks", needs=needs, timeout_seconds=1)
    env = {"TMPDIR": str(node), "PATH": f"{tmp_path}:{PATH}"}
    if started == "by srun":
        ran, *_ = map(Ran, image.tasks("--json", "-", ranks=2, **env))
    else:
        ran = image.run(**env)
    assert ran.states == {"ranks": state}, ran.stdout
    assert list(node.iterdir()) == []
    assert image.left() == []
    if "the_place" in script:
        assert "in the_place" in ran.check("ranks")["reason"]


@pytest.mark.parametrize("started", ["by hand", "by srun"])
def test_interrupted_ranks_leave_no_caches_on_their_node(tmp_path: Path, started: str) -> None:
    image, node = with_caches(tmp_path)
    image.add("ranks", ALL_HANG, runs="ranks", needs={"tasks": 2})
    words, env = ("--level", "full", "--json", "-"), {"TMPDIR": str(node)}
    if started == "by srun":
        tasks = image.tasks("--json", "-", ranks=2, **env)
    else:
        tasks = [image.start(*words, **env)]
    awaited(lambda: list(node.rglob("kernel")))
    for task in tasks:
        task.send_signal(signal.SIGTERM)
    assert Ran(tasks[0]).code == 130
    for task in tasks:
        task.wait(SECONDS)
    assert list(node.iterdir()) == []
    assert image.left() == []


def test_stacks_of_ranks_that_mpiexec_starts_are_apart(tmp_path: Path) -> None:
    """The stacks of a rank are longer than a pipe holds."""
    image = Image(tmp_path / "image")
    write_mpiexec(tmp_path)
    needs = {"tasks": 2, "mpi": True}
    image.end_only_what_hangs(threads=2 * 40)
    image.add("deep", DEEP, runs="ranks", needs=needs, timeout_seconds=1)
    ran = image.run("--level", "full", PATH=f"{tmp_path}:{PATH}")
    output = ran.check("deep")["output"]
    frames = re.findall(r'(?m)^  File "\S+/deep.py", line 5 in deep$', output)
    assert len(frames) == 2 * 40 * 50, output
