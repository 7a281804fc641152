"""A launcher passes signals on to its ranks, and ends with the code of the one that failed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.launch import supervise

from ..conftest import PATH, SOURCE, Done, run, write_module

pytestmark = pytest.mark.slow

TWO_RANKS = """
import os, subprocess, sys
rank = (
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]);"
    "print('ready', flush=True); signal.sigwait([signal.SIGUSR1])"
)
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
ranks = [
    subprocess.Popen([sys.executable, "-c", rank], env={**os.environ, "LOCAL_RANK": str(local)})
    for local in (0, 1)
]
print([one.wait() for one in ranks], helper.poll(), flush=True)
helper.kill()
"""
SUPERVISE = (sys.executable, SOURCE / "launch/supervise.py", "torch.distributed.run", "a", "--b")


def test_a_signal_to_the_launcher_reaches_each_rank_and_nothing_else(tmp_path: Path) -> None:
    write_module(tmp_path, "torch/distributed/run.py", TWO_RANKS)
    env = {"PATH": PATH, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(SUPERVISE, env=env, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(2)] == ["ready\n", "ready\n"]
        program.send_signal(signal.SIGUSR1)
        assert program.stdout.read() == "[0, 0] None\n"


LONE_RANK = """
import os, signal, subprocess, sys
class CalledProcessError(Exception): pass
rank = (
    "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIG{name}]);"
    "print('ready', flush=True); signal.alarm(120); signal.sigwait([signal.SIG{name}]);"
    "print('saved'); sys.exit({code})"
)
rank = subprocess.Popen([sys.executable, "-c", rank], env={{**os.environ, "LOCAL_RANK": "0"}})
error = CalledProcessError("rank 0 failed")
error.returncode = rank.wait()
if error.returncode:
    raise error
"""
WAITING = "import signal; print('ready', flush=True); signal.pause()"


def signalled(folder: Path, text: str, number: int, before: str = "") -> tuple[int, str]:
    """Return the exit code and the output of a launcher that gets a signal once it is ready."""
    write_module(folder, "torch/distributed/run.py", text)
    command = ("bash", "-c", f'{before} exec "$@"', "bash", *SUPERVISE)
    env = {"PATH": PATH, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(number)
        return program.wait(), program.stdout.read()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
@pytest.mark.parametrize("code", [0, 7])
def test_a_lone_rank_ends_as_it_wants_to(tmp_path: Path, name: str, code: int) -> None:
    """accelerate starts it, waits for it and handles no signal."""
    number = signal.Signals[f"SIG{name}"]
    got = signalled(tmp_path, LONE_RANK.format(code=code, name=name), number)
    assert got == (code, "saved\n")


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_a_launcher_that_has_started_no_rank_ends(tmp_path: Path, name: str, code: int) -> None:
    assert signalled(tmp_path, WAITING, signal.Signals[f"SIG{name}"])[0] == code
    assert list(tmp_path.glob("lumi-entry-*")) == []


STUCK = """
import ctypes
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
print("ready", flush=True)
libc.pthread_mutex_lock(mutex)
"""


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_a_launcher_ends_that_waits_in_native_code(tmp_path: Path, name: str, code: int) -> None:
    """So does one that waits for an absent node: handlers of Python do not run meanwhile."""
    assert signalled(tmp_path, STUCK, signal.Signals[f"SIG{name}"])[0] == code
    assert list(tmp_path.glob("lumi-entry-*")) == []


def test_a_rank_that_ignores_the_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    ignoring = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.alarm(120);"
    ignoring += "print('ready', flush=True); signal.pause()"
    command = (sys.executable, "-c", ignoring)
    monkeypatch.setattr(supervise, "_PATIENCE", 0.1)
    monkeypatch.setattr(supervise, "_PATIENCE_OF_KERNEL", 120)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "ready\n"
        monkeypatch.setattr(supervise, "ranks", lambda: [rank.pid] if rank.poll() is None else [])
        supervise._end_ranks(signal.SIGTERM)
        assert rank.returncode == -signal.SIGKILL


def test_a_launcher_leaves_an_ignored_signal_ignored(tmp_path: Path) -> None:
    text = "import signal; print('ready', signal.getsignal(signal.SIGHUP).name, sep='\\n')"
    assert signalled(tmp_path, text, signal.SIGHUP, "trap '' HUP;") == (0, "SIG_IGN\n")


def supervised(folder: Path, text: str) -> Done:
    write_module(folder, "torch/distributed/run.py", text)
    return run(*SUPERVISE, env={"PYTHONPATH": str(folder)})


FAILING = """
class {error}(Exception):
    sigval = returncode = {code}
    def get_first_failure(self):
        return 3, self
    exitcode = {code}
raise {error}("rank 3 failed")
"""
ENDING = "import sys; sys.stderr.write('rank 3 failed\\n'); sys.exit({code})"


@pytest.mark.parametrize(
    ("text", "error", "code", "seen_code"),
    [
        (FAILING, "ChildFailedError", 7, 7),
        (FAILING, "ChildFailedError", -9, 137),
        (FAILING, "CalledProcessError", 7, 7),
        (FAILING, "CalledProcessError", -9, 137),
        (FAILING, "SignalException", 9, 137),
        (ENDING, "SystemExit", 7, 7),
        (ENDING, "SystemExit", -9, 137),
    ],
)
def test_the_exit_code_of_the_rank_that_failed_first_passes(
    tmp_path: Path, text: str, error: str, code: int, seen_code: int
) -> None:
    done = supervised(tmp_path, text.format(error=error, code=code))
    assert (done.returncode, done.stderr) == (seen_code, "rank 3 failed\n")


def test_the_exit_code_of_a_rank_is_seen_where_sigchld_is_ignored(tmp_path: Path) -> None:
    text = "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', 'exit 7']))"
    write_module(tmp_path, "torch/distributed/run.py", text)
    ignoring = ("bash", "-c", 'trap "" CHLD; exec "$@"', "bash", *SUPERVISE)
    assert run(*ignoring, env={"PYTHONPATH": str(tmp_path)}).returncode == 7


def test_a_launcher_gets_its_words_and_does_not_see_our_modules(tmp_path: Path) -> None:
    done = supervised(tmp_path, "import sys; print(sys.argv[1:]); import hostlist")
    assert done.stdout == "['a', '--b']\n"
    assert "No module named 'hostlist'" in done.stderr


def test_what_a_launcher_leaves_in_its_temporary_folder_goes(tmp_path: Path) -> None:
    made = "import tempfile; print(tempfile.mkdtemp(), flush=True); raise SystemExit(7)"
    done = supervised(tmp_path, made)
    assert done.returncode == 7
    assert not Path(done.stdout.strip()).parent.exists()


def test_an_image_without_the_launcher_is_reported() -> None:
    done = run(*SUPERVISE)
    assert done.returncode == 2
    assert done.stderr.startswith("error: package not found: torch")
