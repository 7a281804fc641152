"""lumi-entry under a real srun: wrong input, signals, caches, and what the end of a step leaves."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..unit.inside.conftest import lay_out
from .conftest import run, srun
from .processes import Env, job_of, name_of, processes_of, started

NODES = ("nid005001", "nid005002")
PLACES = ("tmp", "shm")
TABLE = [
    {"name": "TRITON_CACHE_DIR", "folder": "triton", "storage": "node", "reason": "quota"},
    {"name": "TMPDIR", "folder": "tmp", "storage": "node", "reason": "others are in /tmp"},
]
TORCHRUN = ("--launcher", "torchrun", "--nproc", "2")
SECONDS = 300

# Both nodes are this machine: each gets its own folders for what a node has for itself.
ENTER = """
own=$0/$SLURMD_NODENAME
exec singularity -s exec --bind "$0:/mnt" --bind "$own/tmp:/tmp" --bind "$own/shm:/dev/shm" "$@"
"""
FILL = r"""
import os, pathlib, signal, sys, time
home = pathlib.Path(os.environ["TMPDIR"]).parent
rank, node = int(os.environ["RANK"]), os.environ["SLURM_NODEID"]
for name in ("TRITON_CACHE_DIR", "TMPDIR"):
    folder = pathlib.Path(os.environ[name])
    for number in range(500):
        (folder / f"{rank}.{number}").touch()
status = home.stat()
# At once: the ranks that a launcher started write to one pipe.
os.write(1, f"node {node} {status.st_mode & 0o777:o} {status.st_ino} {home}\n".encode())
pathlib.Path(f"/mnt/here-{rank}").touch()
while len(list(pathlib.Path("/mnt").glob("here-*"))) < 4:
    time.sleep(0.01)
END
"""
ENDS = {
    "exit 7": ("sys.exit(7)", 7),
    "kill -9 of one rank": ("if rank == 2: os.kill(os.getpid(), signal.SIGKILL)", 137),
    "scancel of the job": ("time.sleep(600)", 143),
}
"""How programs end, and what srun then exits with."""

COUNT = r"""
import os, pathlib, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.write(1, b"ready\n")
got = [signal.sigtimedwait({signal.SIGUSR1}, 120)]
while got[-1]:
    got.append(signal.sigtimedwait({signal.SIGUSR1}, 1))
pathlib.Path(f"/mnt/checkpoint-{os.environ['RANK']}").write_text(str(len(got) - 1))
"""

Step = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return the folder that all tasks see as /mnt; it holds a lumi-entry that keeps caches."""
    for node in NODES:
        for place in PLACES:
            (tmp_path / node / place).mkdir(parents=True)
            (tmp_path / node / place).chmod(0o1777)
    lay_out(tmp_path / "image", {"name": "lumi-g", "caches": TABLE})
    return tmp_path


@pytest.fixture
def step(image: Path, cluster: Env, shared: Path) -> Iterator[Step]:
    """Start a step whose tasks run lumi-entry, each in a container; none is left at the end."""
    with ExitStack() as running:

        def start(*words: str, tasks: int = 4) -> subprocess.Popen[str]:
            many = (f"--ntasks={tasks}", f"--ntasks-per-node={tasks // 2}", "--nodes=2")
            step = ("srun", f"--job-name={name_of(shared)}", *many, "--mpi=none")
            entry = ("/mnt/image/opt/lumicontainer/bin/lumi-entry", *words)
            command = ("timeout", SECONDS, *step, "sh", "-c", ENTER, shared, image, *entry)
            env = {**cluster, "MARK": str(shared)}
            return running.enter_context(started(command, cwd=Path("/"), env=env))

        yield start


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def left(shared: Path) -> list[str]:
    """Return what lies in the folders of the nodes."""
    paths = (path for node in NODES for each in PLACES for path in (shared / node / each).iterdir())
    return [str(path.relative_to(shared)) for path in paths]


def write(shared: Path, text: str) -> str:
    """Write a program; return its name in the containers."""
    (shared / "program.py").write_text(text)
    return "/mnt/program.py"


@pytest.mark.parametrize(
    ("words", "end"),
    [
        *(pytest.param((), end, id=end) for end in ENDS),
        pytest.param(TORCHRUN, "scancel of the job", id="torchrun"),
    ],
)
def test_caches_are_private_shared_by_a_node_s_ranks_and_gone_with_the_step(
    step: Step, cluster: Env, shared: Path, words: tuple[str, ...], end: str
) -> None:
    text, code = ENDS[end]
    program = write(shared, FILL.replace("END", text))
    running = step("--remove-caches", *words, program, tasks=2 if words else 4)
    homes = set(lines(running, 4))
    if "scancel" in end:
        run(["scancel", job_of(cluster, name_of(shared))], env=cluster)
    _, stderr = running.communicate(timeout=SECONDS)
    assert sorted(line.split()[:3] for line in homes) == [
        ["node", "0", "700"],
        ["node", "1", "700"],
    ], stderr
    assert running.returncode == code, stderr[-3000:]
    assert left(shared) == []
    assert processes_of(shared) == []


def test_a_step_removes_what_a_killed_one_left(step: Step, cluster: Env, shared: Path) -> None:
    killed = step("--remove-caches", write(shared, FILL.replace("END", "time.sleep(600)")))
    lines(killed, 4)
    run(["scancel", f"{job_of(cluster, name_of(shared))}.0"], env=cluster)
    killed.communicate(timeout=SECONDS)
    assert killed.returncode == 137
    assert processes_of(shared) == []
    after = step("--remove-caches", "--", "true")
    after.communicate(timeout=SECONDS)
    assert (after.returncode, left(shared)) == (0, [])


@pytest.mark.parametrize(
    "words", [(), ("--remove-caches",), TORCHRUN], ids=["direct", "remove-caches", "torchrun"]
)
def test_a_signal_to_the_step_reaches_each_rank_once(
    step: Step, cluster: Env, shared: Path, words: tuple[str, ...]
) -> None:
    running = step(*words, write(shared, COUNT), tasks=2 if words == TORCHRUN else 4)
    assert lines(running, 4) == ["ready"] * 4
    run(["scancel", "--signal=USR1", f"{job_of(cluster, name_of(shared))}.0"], env=cluster)
    _, stderr = running.communicate(timeout=SECONDS)
    assert running.returncode == 0, stderr[-3000:]
    counts = {path.name: path.read_text() for path in shared.glob("checkpoint-*")}
    assert counts == {f"checkpoint-{rank}": "1" for rank in range(4)}
    assert processes_of(shared) == []


def test_of_eight_ranks_one_reports_what_is_wrong_and_all_exit_with_2(
    image: Path, cluster: Env, tmp_path: Path
) -> None:
    """The script is one that not even root of a user namespace may read."""
    (tmp_path / "closed.py").touch(mode=0)
    if os.geteuid() == 0:
        os.chown(tmp_path / "closed.py", 12345, 12345)
    code = '"$@"; code=$?; echo "$code"; exit "$code"'
    engine = ("singularity", "-s", "exec", "--bind", f"{tmp_path}:/mnt", image)
    entry = ("lumi-entry", "/mnt/closed.py")
    done = srun(cluster, "sh", "-c", code, "sh", *engine, *entry, tasks=8, mpi="pmi2")
    printed = [line for line in done.stderr.splitlines() if not line.startswith("srun: ")]
    assert "cannot read the script '/mnt/closed.py'" in printed[0]
    assert [line.partition(":")[0].strip() for line in printed] == ["error", "where", "why", "hint"]
    assert (done.stdout, done.returncode) == ("2\n" * 8, 2)


def test_run_starts_lumi_entry_as_exec(image: Path, cluster: Env, tmp_path: Path) -> None:
    program = tmp_path / "show.py"
    program.write_text("import os, sys; print(os.environ['RANK'], *sys.argv[1:])")
    done = srun(cluster, "singularity", "run", "--bind", tmp_path, image, program, "a b", "--x")
    assert sorted(done.stdout.splitlines()) == [f"{rank} a b --x" for rank in range(4)], done.stderr
