"""Start other programs. This is the only module that does."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, TypeAlias

from lumicontainer.errors import HostError, Problem
from lumicontainer.system import budget, process_tree
from lumicontainer.system.budget import Helper, LimitError
from lumicontainer.system.os_errors import hint_for
from lumicontainer.system.programs.communicate import communicate, wait_for
from lumicontainer.system.terminal.masking import masked
from lumicontainer.system.terminal.output import clean, trace

GRACE = 10.0
"""Seconds that an interrupted program has before it is killed."""
_SHOWN = 500
"""Characters of a command that an error shows."""
_NO_MEMORY = (b"memory allocation of", b"MemoryError", b"Cannot allocate memory", b"out of memory")
"""The words of programs in Rust and Python, of the C library and of compilers."""
_MOST_SHOWN = 20_000
"""Characters of output that an error shows."""

_LONGEST_ROW = 1 << 20
"""Bytes of a row of a listing; a path has at most 4096."""


class ProgramError(HostError):
    """A program failed; the reason is the end of its output."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        self.status = status
        last = last_lines(clean(output).strip())
        super().__init__(Problem(f"{command[0]} failed ({describe(status)})", why=last))


class OverLimitError(HostError):
    """A program was ended because it exceeded its limits; they give the exit code."""

    def __init__(self, command: Sequence[str], limits: Helper, why: str, folder: str = "") -> None:
        self.code, self.folder = limits.error.code, folder
        where = masked(clean(shlex.join(command)))[:_SHOWN]
        super().__init__(Problem(f"{command[0]} was ended", where, why, limits.hint))


Finished: TypeAlias = subprocess.CompletedProcess[str]


def describe(status: int) -> str:
    """Return an exit status in words: a code, or the signal that ended the program."""
    if status >= 0:
        return f"exit code {status}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-status).name}"
    return f"ended by signal {-status}"


def last_lines(text: str) -> str:
    """Return the last lines of a program's output without secrets, as much as a message shows."""
    shown = masked("\n".join(text.rstrip("\n").splitlines()[-20:]))
    return shown if len(shown) <= _MOST_SHOWN else f"…{shown[-_MOST_SHOWN:]}"


def capture(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: Helper = budget.QUESTION,
) -> str:
    """Return the stdout of a program that reads ``stdin``; raise ``ProgramError`` if it fails."""
    done = run_to_end(command, env=env, stdin=stdin, limits=limits)
    if done.returncode:
        raise ProgramError(command, done.returncode, done.stderr)
    return done.stdout


def capture_bytes(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    limits: Helper = budget.QUESTION,
) -> bytes:
    """Return the bytes of a program's stdout; raise ``ProgramError`` if it fails."""
    status, (printed, errors) = _communicate(command, env, b"", limits)
    if status:
        raise ProgramError(command, status, errors.decode("utf-8", "replace"))
    return printed


def run_to_end(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: Helper = budget.QUESTION,
) -> Finished:
    """Run a program that reads ``stdin``; return its exit status and output.

    Raises ``OverLimitError`` and kills it if it exceeds its limits.
    """
    status, printed = _communicate(command, env, stdin, limits)
    return _finished(command, status, printed)


def _communicate(
    command: Sequence[str], env: Mapping[str, str] | None, stdin: bytes, limits: Helper
) -> tuple[int, list[bytes]]:
    started = _with_memory(command, limits)
    with starting(command):
        child = subprocess.Popen(started, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    with child, limited(command, limits):
        try:
            printed = communicate(child, stdin, limits)
        except BaseException:
            process_tree.kill(child.pid)
            raise
    _require_memory(command, child.returncode, printed, limits)
    return child.returncode, printed


def in_new_session(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: Helper = budget.FILES,
    watch: Callable[[], None] | None = None,
) -> Finished:
    """Run a program that reads ``stdin``; return its exit status and output.

    It gets no signal of the terminal. Any exception here, such as an interruption, or one that
    ``watch`` raises every second, ends it and what it started; so does SIGKILL of this program.
    """
    source = PIPE if stdin else DEVNULL
    started = _with_memory(command, limits)
    with limited(command, limits), _session(started, env, PIPE, source) as child:
        try:
            printed = communicate(child, stdin, limits, watch)
        except LimitError:
            process_tree.kill(child.pid)
            raise
    _require_memory(command, child.returncode, printed, limits)
    return _finished(command, child.returncode, printed)


def _with_memory(command: Sequence[str], limits: Helper) -> Sequence[str]:
    """Return a command whose processes have the memory of its limits each."""
    if not limits.memory or not find("bash"):
        return command
    # The host or the user may allow less.
    script = """\
[ "$(ulimit -S -d)" != unlimited ] && [ "$(ulimit -S -d)" -le "$0" ] ||
    ulimit -S -d "$0" 2>/dev/null
exec "$@"
"""
    return ["bash", "-c", script, str(limits.memory >> 10), *command]


def _require_memory(
    command: Sequence[str], status: int, printed: Sequence[bytes], limits: Helper
) -> None:
    """Raise ``OverLimitError`` if a program failed because it had too little memory."""
    if status and limits.memory and any(map(printed[-1].__contains__, _NO_MEMORY)):
        why = f"it needed more than {limits.memory >> 20} MiB of memory"
        raise OverLimitError(command, limits, why)


@contextlib.contextmanager
def limited(command: Sequence[str], limits: Helper) -> Iterator[None]:
    """Raise ``OverLimitError`` for a limit that a program exceeded."""
    try:
        yield
    except LimitError as error:
        raise OverLimitError(command, limits, str(error), error.folder) from error


def _finished(command: Sequence[str], status: int, printed: Sequence[bytes]) -> Finished:
    return Finished(command, status, *(each.decode("utf-8", "replace") for each in printed))


@contextlib.contextmanager
def printing(command: Sequence[str]) -> Iterator[IO[bytes]]:
    """Run a program and yield its stdout; it ends with the context at the latest.

    Raises ``ProgramError`` if it has failed when its stdout has been read to the end.
    """
    with tempfile.TemporaryFile() as errors, _session(command, None, errors) as child:
        assert child.stdout is not None
        yield child.stdout
        if not child.stdout.read(1) and (status := child.wait()):
            errors.seek(0)
            raise ProgramError(command, status, errors.read(1 << 16).decode("utf-8", "replace"))


def lines(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, shown: Sequence[str] = ()
) -> Iterator[str]:
    """Yield each line of a program's stdout; then raise ``ProgramError`` if it failed.

    The program begins with the first line that is asked for, and ends when the iterator does.
    ``shown`` is the command that the error names.
    """
    with tempfile.TemporaryFile() as errors, _session(command, env, errors) as child:
        assert child.stdout is not None
        while raw := child.stdout.readline(_LONGEST_ROW + 1):
            if len(raw) > _LONGEST_ROW:
                why = f"it printed a line of more than {_LONGEST_ROW >> 20} MiB"
                raise OverLimitError(shown or command, budget.FILES, why)
            yield raw.decode("utf-8", "replace")
        if status := child.wait():
            errors.seek(0)
            why = errors.read().decode("utf-8", "replace")
            raise ProgramError(shown or command, status, why)


@contextlib.contextmanager
def _session(
    command: Sequence[str],
    env: Mapping[str, str] | None,
    errors: int | IO[bytes],
    stdin: int = DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    with starting(command):
        child = subprocess.Popen(
            bound(command),
            env=env,
            stdin=stdin,
            stdout=PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        _end_now(child)


def _end_now(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
    if child.poll() is None:
        process_tree.kill(child.pid)
        child.wait()
    for pipe in filter(None, (child.stdin, child.stdout, child.stderr)):
        pipe.close()


def run(command: Sequence[str], limits: Helper = budget.FILES) -> None:
    """Run a program that prints to our stdout; raise ``ProgramError`` if it fails."""
    with starting(command):
        child = subprocess.Popen(command, stdin=DEVNULL)
    with child, limited(command, limits):
        try:
            status = wait_for(child, limits)
        except BaseException:
            process_tree.kill(child.pid)
            raise
    if status:
        raise ProgramError(command, status, "")


def bound(command: Sequence[str]) -> list[str]:
    """Return a command that gets SIGTERM when this program ends, even by SIGKILL."""
    setpriv, bash = find("setpriv"), find("bash")
    if not setpriv or not bash:
        return list(command)
    script = Path(__file__).parent / "scripts/lifeline.sh"
    end = [str(setpriv), "--pdeathsig", "TERM", str(bash), str(script)]
    return [*end, str(os.getpid()), str(round(2 * GRACE)), *command]


def own_python(*words: str) -> list[str]:
    """Return the command that runs this Python, which imports nothing from the current folder."""
    return [sys.executable, "-P", "-X", "utf8", *words]


def module_command(name: str, *words: str) -> list[str]:
    """Return the command that runs a module of this package."""
    package = Path(__file__).parents[2]
    return ["env", f"PYTHONPATH={package}", *own_python("-m", name), *words]


def become(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Replace this program by another one, which gets its signals and sets its exit code."""
    with starting(command):
        os.execvpe(command[0], list(command), dict(env))  # noqa: S606 - no shell is wanted


def find(program: str) -> Path | None:
    """Return the path of an executable program, or None."""
    # PATH of an ordinary user may not have the sbin folders, which hold debootstrap.
    folders = [*os.get_exec_path(), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    path = shutil.which(program, path=os.pathsep.join(folders))
    return Path(path) if path else None


@contextlib.contextmanager
def starting(command: Sequence[str]) -> Iterator[None]:
    """Print a command with ``--verbose``; raise ``HostError`` if it cannot be started."""
    trace(command)
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        what, why = f"cannot start {command[0]}", "its exit code would be lost: SIGCHLD is ignored"
        raise HostError(Problem(what, why=why, hint="call signal.signal(SIGCHLD, SIG_DFL) before"))
    try:
        yield
    except OSError as error:
        what, why = f"cannot start {command[0]}", error.strerror or str(error)
        hint = hint_for(error.errno) or "lumicontainer doctor lists what is missing on this host"
        raise HostError(Problem(what, why=why, hint=hint)) from error
