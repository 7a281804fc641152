"""Run a launcher's module so that what its ranks are sent and exit with passes through it.

torchrun and its like end where they get a signal that they do not know, as Slurm's
``--signal=USR1@90``; and torchrun exits with 1 whatever a rank exited with. Where control groups
track the processes of a step, Slurm signals its tasks and nothing that these started
(proctrack_p_signal in proctrack_cgroup.c), so the ranks hear of it from here alone. A Slurm that
tracks them otherwise may signal the ranks itself as well: they then get the signal twice.

Usage: supervise.py MODULE [ARGUMENT]...
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import signal
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HANDED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""The others end the ranks, and that is what a launcher does with them."""
_KILLED = 128


def ranks() -> Iterator[int]:
    """Yield the processes that this one started as ranks; helpers of its own are none."""
    parent = f" {os.getpid()} "
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                # PID (NAME) STATE PARENT ...; the name may hold anything.
                if not stream.read().rpartition(")")[2][2:].startswith(parent):
                    continue
            with open(f"/proc/{name}/environ", "rb") as stream:
                if b"\0LOCAL_RANK=" in b"\0" + stream.read():
                    yield int(name)
        except OSError:  # it has ended meanwhile
            continue


def hand_on(number: int, _: object) -> None:
    """Send the signal ``number`` to every rank."""
    for rank in ranks():
        try:
            os.kill(rank, number)
        except ProcessLookupError:
            continue


def exit_code(error: BaseException) -> int | None:
    """Return the exit code of the rank that failed first, as a shell has it; None for others."""
    if type(error).__name__ == "SignalException":
        return _KILLED + int(error.sigval)  # type: ignore[attr-defined]
    if type(error).__name__ == "CalledProcessError":  # accelerate's, of a lone rank
        return _as_a_shell(int(error.returncode))  # type: ignore[attr-defined]
    if type(error).__name__ != "ChildFailedError":
        return None
    _, failure = error.get_first_failure()  # type: ignore[attr-defined]
    return _as_a_shell(int(failure.exitcode))


def _as_a_shell(code: int) -> int:
    return code if code >= 0 else _KILLED - code


def main(words: list[str]) -> int:
    """Run the module named first, with the rest as its arguments; return an exit code."""
    for number in HANDED_ON:
        signal.signal(number, hand_on)
    # This file's folder, whose modules have names that others may have too; PYTHONSAFEPATH has it
    # left out.
    own = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == own:
        del sys.path[0]
    module, sys.argv = words[0], words
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        sys.stderr.write(
            f"error: the image has no {package}\n"
            f"  where: {sys.executable}\n"
            f"    why: --launcher starts {module}\n"
            "   hint: add a layer that installs it, or use --launcher direct\n"
        )
        return 2
    try:
        # torchrun leaves a folder of its own behind; of this process alone, not of its ranks.
        with tempfile.TemporaryDirectory(prefix="lumi-entry-") as tempfile.tempdir:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        # DeepSpeed's launcher ends with -9 where a rank was ended by signal 9.
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
