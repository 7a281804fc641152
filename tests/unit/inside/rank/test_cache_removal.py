"""Caches on the node go with the last rank of the node, however that one ends: real processes."""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .. import seen
from ..conftest import PATH, lay_out

TABLE = [
    {"name": "MIOPEN_USER_DB_PATH", "folder": "miopen", "storage": "node", "reason": "SQLite"},
    {"name": "TRITON_CACHE_DIR", "folder": "triton", "storage": "node", "reason": "quota"},
]
FILL = 'mkdir "$TRITON_CACHE_DIR/x" && echo >"$TRITON_CACHE_DIR/x/y"; '
SECONDS = 20

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

    def start(number: int, text: str, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [place, "--remove-caches", "--", "bash", "-c", text],
            env={"PATH": PATH, "TMPDIR": str(node), **seen.srun(number), **changes},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Started in the background, pytest ignores it, and bash could not trap it then.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    return start


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def left(node: Path) -> list[str]:
    """Return what is still there once what was to go had its time."""
    end = time.monotonic() + SECONDS
    while list(node.iterdir()) and time.monotonic() < end:
        time.sleep(0.01)
    return [path.name for path in node.iterdir()]


def processes_of(node: Path) -> list[str]:
    """Return the processes that know of this test's folder, once those on their way are gone."""
    end = time.monotonic() + SECONDS
    while (found := _holders(node)) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def _holders(node: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if str(node).encode() in (entry / "environ").read_bytes():
                found.append((entry / "comm").read_text())
        except OSError:
            continue
    return [name for name in found if name]


def test_the_folder_lives_as_long_as_its_last_rank(rank: Rank, node: Path) -> None:
    wait = FILL + "echo here; read -r _; ls -d $TRITON_CACHE_DIR/x"
    first, second = rank(0, wait), rank(1, wait.replace('mkdir "', 'mkdir -p "'))
    assert line(first) == line(second) == "here"
    first.communicate("\n", timeout=SECONDS)
    assert second.communicate("\n", timeout=SECONDS)[0].endswith("/x\n")
    assert left(node) == []
    assert processes_of(node) == []


@pytest.mark.parametrize("number", [0, 1])
def test_kill_9_of_a_rank_leaves_nothing_behind(rank: Rank, node: Path, number: int) -> None:
    ranks = [rank(each, FILL + "echo here; read -r _") for each in (0, 1)]
    assert [line(each) for each in ranks] == ["here", "here"]
    ranks[number].kill()
    assert ranks[number].wait(SECONDS) == -signal.SIGKILL
    assert [path.name for path in node.iterdir()] == [f"lumi-{os.geteuid()}-1.0-once"]
    ranks[1 - number].communicate("\n", timeout=SECONDS)
    assert left(node) == []
    assert processes_of(node) == []


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_all_of_the_step_does_not_keep_it_from_going(
    rank: Rank, node: Path, sent: signal.Signals
) -> None:
    process = rank(0, FILL + f"trap 'exit 5' {sent.value}; echo here; while :; do read -r _; done")
    assert line(process) == "here"
    for entry in Path("/proc").iterdir():
        try:
            ours = str(node).encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if ours and entry.name.isdigit():
            os.kill(int(entry.name), sent)
    assert process.wait(SECONDS) == 5
    assert left(node) == []


def test_a_signal_to_lumi_entry_alone_reaches_the_program(rank: Rank, node: Path) -> None:
    process = rank(0, FILL + "trap 'exit 5' USR1; echo here; while :; do read -r _; done")
    assert line(process) == "here"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(SECONDS) == 5
    assert left(node) == []


def test_the_output_ends_with_the_program(rank: Rank) -> None:
    process, other = rank(0, "echo here"), rank(1, "read -r _")
    assert process.communicate(timeout=SECONDS)[0] == "here\n"
    assert process.returncode == 0
    other.communicate("\n", timeout=SECONDS)


def test_the_program_meets_no_child_that_it_did_not_start(rank: Rank) -> None:
    code = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    assert rank(0, f'exec python3 -c "{code}"').communicate("\n", timeout=SECONDS)[0] == "none\n"


def test_a_shell_that_numbers_its_descriptors_does_not_let_go(rank: Rank, node: Path) -> None:
    text = FILL + 'for n in 3 4 5 6 7 8 9; do eval "exec $n>/dev/null"; done; echo; read -r _'
    process = rank(0, text)
    line(process)
    folder = os.open(node / f"lumi-{os.geteuid()}-1.0-once", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)
    process.communicate("\n", timeout=SECONDS)
    assert left(node) == []


def test_links_go_and_what_they_lead_to_stays(rank: Rank, node: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    text = f'ln -s {kept} {kept}/file "$TRITON_CACHE_DIR"; mkdir -m 0 "$TRITON_CACHE_DIR/closed"'
    rank(0, text).communicate("\n", timeout=SECONDS)
    assert left(node) == []
    assert [path.name for path in kept.iterdir()] == ["file"]


def test_the_next_run_removes_what_a_killed_run_left_and_nothing_of_others(
    rank: Rank, node: Path
) -> None:
    for name in ("7.0-once", "8.1-once-1"):
        (node / f"lumi-{os.geteuid()}-{name}/deep/er").mkdir(parents=True)
        (node / f"lumi-{os.geteuid()}-{name}").chmod(0o700)
    (node / f"lumi-{os.geteuid()}-9.0").mkdir(mode=0o700)
    other = rank(0, "echo here; read -r _", SLURM_JOB_ID="2")
    assert line(other) == "here"
    rank(0, ":").communicate("\n", timeout=SECONDS)
    end = time.monotonic() + SECONDS
    while len(list(node.iterdir())) > 2 and time.monotonic() < end:
        time.sleep(0.01)
    kept = {f"lumi-{os.geteuid()}-{name}" for name in ("9.0", "2.0-once")}
    assert {path.name for path in node.iterdir()} == kept
    other.communicate("\n", timeout=SECONDS)


def test_runs_that_follow_each_other_at_once_all_find_their_folder(rank: Rank, node: Path) -> None:
    for _ in range(15):
        process = rank(0, 'test -d "$TRITON_CACHE_DIR" && echo found')
        assert process.communicate("\n", timeout=SECONDS)[0] == "found\n"
    assert left(node) == []


def test_sixteen_ranks_start_and_end_at_once(place: Path, node: Path) -> None:
    count = 16
    text = 'mkdir -p "$TRITON_CACHE_DIR/x"; ls -d "$TRITON_CACHE_DIR" "$MIOPEN_USER_DB_PATH"'
    logs = node.with_name("logs")
    step = {**seen.srun(0), "SLURM_STEP_NUM_NODES": "1"}
    sizes = dict.fromkeys(("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"), str(count))

    def start(number: int) -> subprocess.Popen[bytes]:
        rank = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID"), str(number))
        return subprocess.Popen(
            [place, "--remove-caches", "--log-dir", logs, "--", "bash", "-c", text],
            env={"PATH": PATH, "TMPDIR": str(node), **step, **sizes, **rank},
        )

    assert [one.wait(120) for one in [start(rank) for rank in range(count)]] == [0] * count
    home = node / f"lumi-{os.geteuid()}-1.0-once"
    printed = {path.name: path.read_text() for path in logs.iterdir()}
    names = [f"1.0-rank{rank:02}" for rank in range(count)]
    assert printed == {
        **dict.fromkeys([f"{name}.out" for name in names], f"{home}/miopen\n{home}/triton\n"),
        **dict.fromkeys([f"{name}.err" for name in names], ""),
    }
    assert left(node) == []
    assert processes_of(node) == []
