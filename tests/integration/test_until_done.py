"""A job with ``--until-done`` sends itself again, on a real Slurm, until its program is done."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import ROOT
from .conftest import alone, lumicontainer, run
from .processes import SECONDS, Env, jobs_of, started, until, wait_for

CLUSTER = ("--recipes", ROOT / "tests/cluster", "--platform", "two-nodes", "--time", "10m")
RANKS = ("--nodes", "2", "--gpus", "2")
CHAIN = ("--until-done", "--checkpoint", "saved *", "--output", "%j.out", "--wait")
TRAIN = """\
import os, signal, sys, time
from pathlib import Path
import torch
import torch.distributed as dist

ENDS = dict(zip((3, 6, 9), sys.argv[1:]))
limit, first, saved = [], 0, Path("saved state")
signal.signal(signal.SIGUSR1, lambda *_: limit.append(True))
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.Adam(model.parameters())
if saved.exists():
    weights, moments, first = torch.load(saved)
    model.load_state_dict(weights)
    optimizer.load_state_dict(moments)

def save(step):
    if rank == 0:
        torch.save((model.state_dict(), optimizer.state_dict(), step), "new")
        Path("new").rename(saved)
    dist.barrier()

for step in range(first, 15):
    random = torch.Generator().manual_seed(2 * step + rank)
    optimizer.zero_grad()
    model(torch.randn(4, 8, generator=random)).square().mean().backward()
    optimizer.step()
    if end := ENDS.get(step):
        save(step + 1)
        print(f"{end} in step {step}", flush=True)
        while end == "limit":
            time.sleep(0.05)
            if limit:
                sys.exit(0)
        if rank and end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank:
            sys.exit(3)
        time.sleep(600)
weights = [each.detach().numpy().tobytes() for each in model.parameters()]
Path(f"weights {rank}").write_bytes(b"".join(weights))
dist.destroy_process_group()
os._exit(0)
"""
"""It leaves at once: while Python ends, PyTorch's threads for Gloo abort a rank now and then."""


class Limits:
    """Send the jobs of a folder the signal of their time limit, when their ranks wait for it."""

    def __init__(self, folder: Path, cluster: Env, waiting: subprocess.Popen[str]) -> None:
        self._folder, self._cluster, self._waiting = folder, cluster, waiting
        self.reached: list[str] = []

    def look(self) -> bool:
        """Signal the jobs that wait for it; return whether all are over."""
        for log in self._folder.glob("*.out"):
            if log.stem not in self.reached and log.read_text().count("limit in step") == 2:
                self.reached.append(log.stem)
                # As Slurm does it for --signal=B:USR1@300.
                run(("scancel", "--batch", "--signal=USR1", log.stem), env=self._cluster)
        return self._waiting.poll() is not None


INTERRUPTIONS = {
    "": ("limit", "killed", "error"),
    "torchrun": ("limit", "killed"),
}
"""By launcher; without one, Slurm starts the ranks."""


@pytest.fixture(scope="module")
def weights(
    image: Path, running_cluster: Env, tmp_path_factory: pytest.TempPathFactory
) -> set[bytes]:
    """Return the weights of all ranks at the end of a job without an interruption."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "train.py").write_text(TRAIN)
    words = (*CLUSTER, *RANKS, "--wait", image, "--", "train.py")
    with alone():
        lumicontainer("job", *words, cwd=folder, env=running_cluster, code=0)
    return {path.read_bytes() for path in folder.glob("weights ?")}


@pytest.mark.parametrize("launcher", INTERRUPTIONS, ids=["three times", "under torchrun"])
def test_a_program_that_is_interrupted_ends_with_the_same_weights(
    image: Path, weights: set[bytes], cluster: Env, tmp_path: Path, launcher: str
) -> None:
    often = tmp_path / "a b"
    often.mkdir()
    (often / "train.py").write_text(TRAIN)
    interruptions = INTERRUPTIONS[launcher]
    shape = (*RANKS, *(("--launcher", launcher) if launcher else ()))
    words = (*CLUSTER, *shape, *CHAIN, image, "--", "train.py", *interruptions)
    command = (sys.executable, "-m", "lumicontainer", "job", *words)
    with started(command, cwd=often, env=cluster) as waiting:
        limits = Limits(often, cluster, waiting)
        if not until(limits.look, SECONDS, pause=0.1):
            run(("scancel", *jobs_of(cluster, often)), env=cluster)
        printed, errors = waiting.communicate()
    assert waiting.returncode == 0, printed + errors
    jobs = sorted(often.glob("*.out"), key=lambda log: int(log.stem))
    ends = [{*re.findall("(?m)^(limit|killed|error) in", log.read_text())} for log in jobs]
    assert ends == [*({each} for each in interruptions), set()]
    assert {path.read_bytes() for path in often.glob("weights ?")} == weights
    assert len(weights) == 1
    assert "until-done: the program is done" in printed


SAVES = """\
import os, signal, sys
from pathlib import Path

saved = Path(f"saved {os.environ['RANK']}")
if saved.exists():
    sys.exit(print("it continues"))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.sigwait([signal.SIGUSR1])
saved.touch()
"""


def test_the_signal_that_slurm_sends_before_a_time_limit_lets_the_program_save(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    written = (*CLUSTER, "--gpus", "2", *CHAIN[:-1], image, "--", "train.py")
    script = lumicontainer("job", *written, cwd=tmp_path, env=cluster, code=0).stdout
    (tmp_path / "job.sh").write_text(script)
    limit = ("--time=1", "--signal=B:USR1@1")
    run(("sbatch", *limit, "job.sh"), cwd=tmp_path, env=cluster)
    wait_for(lambda: not jobs_of(cluster, tmp_path))
    first, second = sorted(tmp_path.glob("*.out"), key=lambda log: int(log.stem))
    assert f"until-done: job {second.stem} continues job {first.stem}" in first.read_text()
    assert second.read_text().count("it continues") == 2


def test_a_program_that_never_saves_ends_after_its_restarts(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    (tmp_path / "saved before").touch()
    words = (*CLUSTER, "--gpus", "1", *CHAIN, "--restarts", "1", image, "--", "sh", "-c", "exit 3")
    done = lumicontainer("job", *words, cwd=tmp_path, env=cluster, code=7)
    assert len([*tmp_path.glob("*.out")]) == 2
    assert "jobs in a row that saved nothing in ./saved *: 2" in done.stdout
    assert "exit code 3" in done.stderr
    assert jobs_of(cluster, tmp_path) == []


UNFIT = """\
[ -e bad ] || hostname >bad
# The clock of the first node seems wrong.
[ "$(cat bad)" != "$(hostname)" ] || export SLURM_JOB_START_TIME=9999999999
export SLURM_MEM_PER_NODE=1
exec lumi-entry --preflight -- echo "it ran"
"""


def test_a_node_that_preflight_refuses_is_left_out(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    words = (*CLUSTER, "--gpus", "1", *CHAIN, image, "--", "sh", "-c", UNFIT)
    done = lumicontainer("job", *words, cwd=tmp_path, env=cluster, code=0)
    bad = (tmp_path / "bad").read_text().strip()
    assert f"error: node {bad} is not fit" in done.stdout
    assert "it ran" in done.stdout
    (_, last) = sorted(tmp_path.glob("*.out"), key=lambda log: int(log.stem))
    shown = run(("scontrol", "show", "job", last.stem), env=cluster).stdout
    assert f"ExcNodeList={bad}\n" in shown
