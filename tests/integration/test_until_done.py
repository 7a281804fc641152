"""A job with ``--until-done`` sends itself again, on a real Slurm, until its program is done."""

import re
import subprocess
import sys
from pathlib import Path

from ..conftest import ROOT
from .conftest import lumicontainer, run
from .processes import SECONDS, Env, jobs_of, started, until

CLUSTER = ("--recipes", ROOT / "tests/cluster", "--platform", "two-nodes", "--time", "10m")
CHAIN = ("--until-done", "--checkpoint", "saved *", "--output", "%j.out", "--wait")
TRAIN = """\
import os, pickle, random, signal, sys, time
from pathlib import Path

ENDS = {3: "limit", 5: "killed", 8: "limit", 10: "error", 12: "limit"} if sys.argv[1:] else {}
rank, limit = int(os.environ["RANK"]), []
saved, others = Path(f"saved {rank}"), Path(f"saved {1 - rank}")
signal.signal(signal.SIGUSR1, lambda *_: limit.append(True))
random.seed(rank)
weights, first = [0.0] * 8, 0
if saved.exists():
    weights, first, state = pickle.loads(saved.read_bytes())
    random.setstate(state)

def save(step):
    Path(f"new {rank}").write_bytes(pickle.dumps((weights, step, random.getstate())))
    Path(f"new {rank}").rename(saved)
    while not others.exists() or pickle.loads(others.read_bytes())[1] != step:
        time.sleep(0.05)

for step in range(first, 15):
    weights = [each + 0.1 * (random.gauss(1, 1) - each) for each in weights]
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
Path(f"weights {rank}").write_text(" ".join(map(float.hex, weights)))
"""


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


def test_a_program_that_is_interrupted_five_times_ends_with_the_same_weights(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    once, often = tmp_path / "once", tmp_path / "a b"
    for folder in (once, often):
        folder.mkdir()
        (folder / "train.py").write_text(TRAIN)
    shape = (*CLUSTER, "--nodes", "2", "--gpus", "2")
    words = (*shape, "--wait", image, "--", "train.py")
    lumicontainer("job", *words, cwd=once, env=cluster, code=0)
    words = (*shape, *CHAIN, image, "--", "train.py", "--interrupted")
    command = (sys.executable, "-m", "lumicontainer", "job", *words)
    with started(command, cwd=often, env=cluster) as waiting:
        limits = Limits(often, cluster, waiting)
        if not until(limits.look, SECONDS, pause=0.1):
            run(("scancel", *jobs_of(cluster, often)), env=cluster)
        printed, errors = waiting.communicate()
    assert waiting.returncode == 0, printed + errors
    jobs = sorted(often.glob("*.out"), key=lambda log: int(log.stem))
    ends = [{*re.findall("(?m)^(limit|killed|error) in", log.read_text())} for log in jobs]
    assert ends == [{"limit"}, {"killed"}, {"limit"}, {"error"}, {"limit"}, set()]
    for name in ("weights 0", "weights 1"):
        assert (often / name).read_bytes() == (once / name).read_bytes()
    assert "until-done: the program is done" in printed


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
