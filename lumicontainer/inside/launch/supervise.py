"""Run a launcher's module, forward signals to its ranks, and exit with a rank's exit code.

torchrun and other launchers end on signals that they do not handle, such as those of Slurm's
``--signal=USR1@90``; and torchrun always exits with 1. With proctrack/cgroup, Slurm signals only
the tasks of a step, not their children (proctrack_p_signal in proctrack_cgroup.c), so ranks get
signals only from here. With another plugin, Slurm may signal ranks too: they get it twice.

Usage: supervise.py MODULE [ARGUMENT]...
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Iterator

FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
"""On other signals a launcher ends its ranks, as it should."""
_KILLED = 128


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


def forward(number: int, _: object) -> None:
    """Send the signal ``number`` to every rank."""
    for rank in ranks():
        try:
            os.kill(rank, number)
        except ProcessLookupError:
            continue


def exit_code(error: BaseException) -> int | None:
    """Return the exit code, as in a shell, of the rank that failed first; None for other errors."""
    if type(error).__name__ == "SignalException":
        return _KILLED + int(error.sigval)  # type: ignore[attr-defined]
    if type(error).__name__ == "CalledProcessError":  # accelerate's, with a single rank
        return _as_a_shell(int(error.returncode))  # type: ignore[attr-defined]
    if type(error).__name__ != "ChildFailedError":
        return None
    _, failure = error.get_first_failure()  # type: ignore[attr-defined]
    return _as_a_shell(int(failure.exitcode))


def _as_a_shell(code: int) -> int:
    return code if code >= 0 else _KILLED - code


def main(words: list[str]) -> int:
    """Run the module named first, with the rest as its arguments; return an exit code."""
    for number in FORWARDED:
        signal.signal(number, forward)
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
        code = exit_code(error)
        if code is None:
            raise
        sys.stderr.write(f"{error}\n")
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
