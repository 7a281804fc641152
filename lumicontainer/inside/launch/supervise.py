"""Run a launcher's module, forward signals to its ranks, and exit with a rank's exit code.

Usage: supervise.py MODULE [ARGUMENT]...
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import runpy
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

# torchrun and other launchers end on signals that they do not handle, such as the USR1 of Slurm's
# ``--signal=USR1@90``; and torchrun always exits with 1. With proctrack/cgroup, Slurm signals only
# the tasks of a step, not their children (proctrack_p_signal in proctrack_cgroup.c), so ranks get
# signals only from here. With another plugin, Slurm may signal ranks too: they get it twice. On the
# others torchrun and DeepSpeed end their ranks, by handlers that replace the ones from here.
# accelerate handles none: it waits for a lone rank, which ends in its own way.
FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_KILLED = 128
_PATIENCE = 2.0  # seconds in which the main thread must run handlers, and ranks must end
_PATIENCE_OF_KERNEL = 0.5  # seconds in which it ends killed ranks, unless they wait for a device
_PAUSE = 0.1


def ranks() -> Iterator[int]:
    """Yield the pids of the ranks among this process's children; others are helpers."""
    parent = f" {os.getpid()} "
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                # PID (NAME) STATE PARENT ...; the name may hold any character.
                if not stream.read().rpartition(")")[2][2:].startswith(parent):
                    continue
            with open(f"/proc/{name}/environ", "rb") as stream:
                if b"\0LOCAL_RANK=" in b"\0" + stream.read():
                    yield int(name)
        except OSError:  # the process has ended
            continue


def _forward(number: int, _: object) -> None:
    started = list(ranks())
    if not started and number in ENDING:
        sys.exit(_KILLED + number)
    for rank in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, number)


# Handlers of Python run in the main thread, and only between its bytecodes. A launcher that waits
# for an absent node does so in C++, for minutes. But the interpreter's own handler writes each
# signal's number to the wakeup descriptor at once, which another thread reads.
def _watch_signals() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    answered = threading.Event()
    # By default the system ignores this signal.
    signal.signal(signal.SIGURG, lambda *_: answered.set())
    threading.Thread(target=_watch, args=(reading, answered), daemon=True).start()


def _watch(reading: int, answered: threading.Event) -> None:
    main_thread = threading.main_thread().ident or 0
    while True:
        number = os.read(reading, 1)[0]
        if number not in ENDING:
            continue
        answered.clear()
        signal.pthread_kill(main_thread, signal.SIGURG)
        if not answered.wait(_PATIENCE):
            _end_by(number)


def _end_by(number: int) -> NoReturn:
    """End this process without its main thread, after its ranks."""
    _end_ranks(number)
    if tempfile.tempdir:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
    os._exit(_KILLED + number)


def _end_ranks(number: int) -> None:
    """End the ranks by a signal; kill those that are left after a while."""
    for signal_number, patience in ((number, _PATIENCE), (signal.SIGKILL, _PATIENCE_OF_KERNEL)):
        for rank in ranks():
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, signal_number)
        end = time.monotonic() + patience
        while any(ranks()) and time.monotonic() < end:
            time.sleep(_PAUSE)


def _exit_code(error: BaseException) -> int | None:
    """Return the exit code, as in a shell, of the rank that failed first; None for other errors."""
    any_error: Any = error
    if type(error).__name__ == "SignalException":
        return _KILLED + int(any_error.sigval)
    if type(error).__name__ == "CalledProcessError":  # accelerate's, with a single rank
        return _as_a_shell(int(any_error.returncode))
    if type(error).__name__ == "ChildFailedError":
        return _as_a_shell(int(any_error.get_first_failure()[1].exitcode))
    return None


def _as_a_shell(code: int) -> int:
    return code if code >= 0 else _KILLED - code


def main(words: list[str]) -> int:
    """Run the module named first, with the rest as its arguments; return an exit code."""
    for number in (*FORWARDED, *ENDING):
        if number in FORWARDED or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _forward)
    _watch_signals()
    # If it is ignored, each rank seems to end with 0.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Remove this file's folder, whose modules may hide others; PYTHONSAFEPATH does not add it.
    own = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == own:
        del sys.path[0]
    module, sys.argv = words[0], words
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        sys.stderr.write(
            f"error: package not found: {package}\n"
            f"  where: {sys.executable}\n"
            f"    why: --launcher starts {module}\n"
            "   hint: add a layer that installs it, or use --launcher direct\n"
        )
        return 2
    try:
        # torchrun leaves a temporary folder behind; TMPDIR of the ranks must not change.
        with tempfile.TemporaryDirectory(prefix="lumi-entry-") as tempfile.tempdir:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        # DeepSpeed's launcher exits with -9 if signal 9 ended a rank.
        if isinstance(error.code, int):
            return _as_a_shell(error.code)
        raise
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        sys.stderr.write(f"{error}\n")
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
