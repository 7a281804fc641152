"""Caches on the node go with the last rank of the node, however that one ends: real processes."""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import pytest

from .. import seen
from ..conftest import AWAIT_SIGNAL, PATH, lay_out

pytestmark = pytest.mark.slow

TABLE = [
    {"name": "MIOPEN_USER_DB_PATH", "folder": "miopen", "storage": "node", "reason": "SQLite"},
    {"name": "TRITON_CACHE_DIR", "folder": "triton", "storage": "node", "reason": "quota"},
]
FILL = 'mkdir -p "$TRITON_CACHE_DIR/x" && echo >"$TRITON_CACHE_DIR/x/y"; '
WAIT = FILL + "echo here; read -r _"
OWN = f"lumi-{os.geteuid()}"
HOME = f"{OWN}-1.0-once"
SECONDS = 120

Rank = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("image"), {"name": "lumi-g", "caches": TABLE})


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Return the folder on the node that caches lie below."""
    folder = tmp_path / "node"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def rank(place: Path, node: Path) -> Rank:
    """Start one rank whose program is a line of shell that reads its stdin to wait."""

    def start(number: int, text: str, *options: object, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [place, "--remove-caches", *options, "--", "bash", "-c", text],
            env={"PATH": PATH, "TMPDIR": str(node), **seen.srun(number), **changes},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


def fill_and_await(sent: signal.Signals) -> str:
    """Return a line of shell that fills a cache, and exits with 5 on a signal."""
    return f"{FILL} exec python3 -c '{AWAIT_SIGNAL}' {sent.value}"


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def output(process: subprocess.Popen[str]) -> str:
    """Let a rank that waits end, and return the rest of its output."""
    return process.communicate("\n", timeout=SECONDS)[0]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def processes(node: Path) -> list[int]:
    """Return the processes that know of this test's folder."""
    numbers = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(node).encode() in (entry / "environ").read_bytes():
                numbers.append(int(entry.name))
    return numbers


def left(look: Callable[[Path], Collection[object]], node: Path, count: int = 0) -> object:
    """Return what is still there once what was to go had its time."""
    end = time.monotonic() + SECONDS
    while len(look(node)) > count and time.monotonic() < end:
        time.sleep(0.01)
    return look(node)


def test_the_folder_lives_as_long_as_its_last_rank(rank: Rank, node: Path) -> None:
    first, second = (rank(number, WAIT + "; ls -d $TRITON_CACHE_DIR/x") for number in (0, 1))
    assert line(first) == line(second) == "here"
    output(first)
    assert output(second).endswith("/x\n")
    assert left(names, node) == set()
    assert left(processes, node) == []


@pytest.mark.parametrize("number", [0, 1])
def test_kill_9_of_a_rank_leaves_nothing_behind(rank: Rank, node: Path, number: int) -> None:
    ranks = [rank(each, WAIT) for each in (0, 1)]
    assert [line(each) for each in ranks] == ["here", "here"]
    ranks[number].kill()
    assert ranks[number].wait(SECONDS) == -signal.SIGKILL
    assert names(node) == {HOME}
    output(ranks[1 - number])
    assert left(names, node) == set()
    assert left(processes, node) == []


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_a_step_leaves_nothing(rank: Rank, node: Path, sent: signal.Signals) -> None:
    process = rank(0, fill_and_await(sent))
    assert int(line(process)) != process.pid
    for pid in processes(node):
        with suppress(ProcessLookupError):  # one may end with the one before
            os.kill(pid, sent)
    assert process.wait(SECONDS) == 5
    assert left(names, node) == set()


def test_a_signal_to_lumi_entry_alone_reaches_the_program(rank: Rank, node: Path) -> None:
    process = rank(0, fill_and_await(signal.SIGUSR1))
    assert int(line(process)) != process.pid
    process.send_signal(signal.SIGUSR1)
    assert process.wait(SECONDS) == 5
    assert left(names, node) == set()


def test_the_output_ends_with_the_program(rank: Rank) -> None:
    process, other = rank(0, "echo here"), rank(1, "read -r _")
    assert process.communicate(timeout=SECONDS)[0] == "here\n"
    assert process.returncode == 0
    output(other)


def test_the_program_meets_no_child_that_it_did_not_start(rank: Rank) -> None:
    code = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    assert output(rank(0, f'exec python3 -c "{code}"')) == "none\n"


def test_a_shell_that_numbers_its_descriptors_does_not_let_go(rank: Rank, node: Path) -> None:
    process = rank(0, f'for n in 3 4 5 6 7 8 9; do eval "exec $n>/dev/null"; done; {WAIT}')
    assert line(process) == "here"
    folder = os.open(node / HOME, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)
    output(process)
    assert left(names, node) == set()


def test_links_go_and_what_they_lead_to_stays(rank: Rank, node: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    text = f'ln -s {kept} {kept}/file "$TRITON_CACHE_DIR"; mkdir -m 0 "$TRITON_CACHE_DIR/closed"'
    output(rank(0, text))
    assert left(names, node) == set()
    assert names(kept) == {"file"}


def test_the_next_run_removes_what_a_killed_run_left_and_no_more(rank: Rank, node: Path) -> None:
    for name in ("7.0-once", "8.1-once-1", "9.0"):
        (node / f"{OWN}-{name}").mkdir(mode=0o700)
        (node / f"{OWN}-{name}/deep/er").mkdir(parents=True)
    other = rank(0, WAIT, SLURM_JOB_ID="2")
    assert line(other) == "here"
    output(rank(0, ":"))
    assert left(names, node, count=2) == {f"{OWN}-9.0", f"{OWN}-2.0-once"}
    output(other)


def test_runs_that_follow_each_other_at_once_all_find_their_folder(rank: Rank, node: Path) -> None:
    for _ in range(15):
        assert output(rank(0, 'test -d "$TRITON_CACHE_DIR" && echo found')) == "found\n"
    assert left(names, node) == set()


def test_sixteen_ranks_start_and_end_at_once(rank: Rank, node: Path, tmp_path: Path) -> None:
    count = 16
    text = 'mkdir -p "$TRITON_CACHE_DIR/x"; ls -d "$TRITON_CACHE_DIR" "$MIOPEN_USER_DB_PATH"'
    logs = tmp_path / "logs"
    step = seen.step(0, "nid005001", count, str(count), 1)
    tasks = [{**step, **seen.task(number, number, 0)} for number in range(count)]
    ranks = [rank(0, text, "--log-dir", logs, **task) for task in tasks]
    assert [each.wait(SECONDS) for each in ranks] == [0] * count
    for number in range(count):
        printed = (logs / f"1.0-rank{number:02}.out").read_text()
        assert printed == f"{node}/{HOME}/miopen\n{node}/{HOME}/triton\n"
        assert (logs / f"1.0-rank{number:02}.err").read_text() == ""
    assert left(names, node) == set()
    assert left(processes, node) == []
