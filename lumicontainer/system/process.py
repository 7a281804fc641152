"""Start other programs. This is the only module that does."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process_tree
from lumicontainer.system.os_errors import hint_for
from lumicontainer.system.terminal.masking import masked, masked_bytes
from lumicontainer.system.terminal.output import trace
from lumicontainer.system.terminal.text import clean

if TYPE_CHECKING:
    from asyncio import StreamReader
    from asyncio.subprocess import Process
    from subprocess import CompletedProcess

_GRACE = 10.0
"""Seconds that an interrupted program has before it is killed."""


class ProgramError(HostError):
    """A program that was needed failed; its message is the reason."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        self.status = status
        shown = masked("\n".join(clean(output).strip().splitlines()[-20:]))
        super().__init__(Problem(f"{command[0]} failed ({describe(status)})", why=shown))


class SilentError(Exception):
    """A program printed nothing for longer than it may; ``report`` says what its processes did."""

    def __init__(self, report: str) -> None:
        super().__init__(report)
        self.report = report


class Patience(NamedTuple):
    """Say how long a program may print nothing."""

    seconds: float | None = None
    writing: bool = False
    """What it writes to files counts as output, too."""


def describe(status: int) -> str:
    """Return an exit status in words: a code, or the signal that ended the program."""
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


def shown(raw: bytes) -> str:
    """Return a line of another program as it is told and kept."""
    text = clean(masked_bytes(raw).decode("utf-8", "replace"))
    # What steers a terminal may have stood within a secret.
    return masked(text)


def quoted(command: Sequence[str]) -> str:
    """Return a command as a user would type it."""
    return shlex.join(command)


def capture(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, given: bytes = b""
) -> str:
    """Run a program and return what it printed; raise ``ProgramError`` where it fails.

    ``given`` is its stdin.
    """
    done = _run(command, env=env, capture=True, given=given)
    if done.returncode:
        raise ProgramError(command, done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout.decode("utf-8", "replace")


def capture_bytes(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, limit: int | None = None
) -> bytes:
    """Run a program and return the bytes it printed; raise ``ProgramError`` where it fails.

    It fails where it prints more than ``limit`` bytes.
    """
    done = _limited(command, limit) if limit else _run(command, env=env, capture=True)
    if done.returncode:
        raise ProgramError(command, done.returncode, done.stderr.decode("utf-8", "replace"))
    return done.stdout


class Finished(NamedTuple):
    """Hold how a program ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def finished(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, given: bytes = b""
) -> Finished:
    """Run a program, with ``given`` as its stdin, to its end; return how it ended."""
    done = _run(command, env=env, capture=True, given=given)
    told = (each.decode("utf-8", "replace") for each in (done.stdout, done.stderr))
    return Finished(done.returncode, *told)


def passed(command: Sequence[str]) -> None:
    """Run a program whose output is this one's; raise ``ProgramError`` where it fails."""
    done = _run(command)
    if done.returncode:
        raise ProgramError(command, done.returncode, "")


def _run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    capture: bool = False,
    given: bytes = b"",
) -> CompletedProcess[bytes]:
    import subprocess  # noqa: PLC0415 - 4 ms that rendering need not pay

    trace(command)
    try:
        return subprocess.run(command, env=env, capture_output=capture, check=False, input=given)
    except OSError as error:
        raise _not_started(command, error) from error


def _limited(command: Sequence[str], limit: int) -> CompletedProcess[bytes]:
    """Run a program, and end it once it has printed more than ``limit`` bytes."""
    import subprocess  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    trace(command)
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said
            )
        except OSError as error:
            raise _not_started(command, error) from error
        with child:
            assert child.stdout is not None
            printed = child.stdout.read(limit + 1)
            if len(printed) > limit:
                child.kill()
        said.seek(0)
        why = said.read(1 << 16)
        if len(printed) > limit:
            why = f"it printed more than {limit} bytes".encode()
        return subprocess.CompletedProcess(command, child.returncode, printed, why)


async def logged(  # noqa: PLR0913 - each is named where it is given
    command: Sequence[str],
    log: IO[str],
    *,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda _: None,
    given: bytes = b"",
    result: IO[bytes] | None = None,
    patience: Patience | None = None,
) -> int:
    """Run a program with its output, cleaned and without secrets, in ``log``; return its status.

    ``given`` is its stdin.
    What it overwrites on its line (a progress bar) reaches ``on_line`` alone; its stdout goes to
    ``result`` as it is, where that is given. The program and all that it started end with it when
    this one is interrupted.

    Where they print nothing for longer than ``patience`` lasts, they are killed, and
    ``SilentError`` is raised.
    """
    import asyncio  # noqa: PLC0415 - 40 ms, and only builds need it
    from subprocess import DEVNULL, PIPE, STDOUT  # noqa: PLC0415

    trace(command)
    stdin = _file_of(given) if given else DEVNULL
    try:
        child = await asyncio.create_subprocess_exec(
            *bound(command),
            env=env,
            stdin=stdin,
            stdout=result or PIPE,
            stderr=PIPE if result else STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(command, error) from error
    finally:
        if stdin != DEVNULL:
            os.close(stdin)
    talk = child.stderr if result else child.stdout
    assert talk is not None
    try:
        await _follow(_heard(talk, child.pid, patience or Patience()), log, on_line)
        return await child.wait()
    finally:
        await _end(child)


async def _follow(
    heard: AsyncIterator[bytes], log: IO[str], on_line: Callable[[str], None]
) -> None:
    """Write what is heard of a program to its log, line by line, also a last one without an end."""
    pending = b""
    try:
        async for chunk in heard:
            *lines, pending = (pending + chunk).split(b"\n")
            for raw in lines:
                line = shown(raw)
                log.write(line + "\n")
                on_line(line)
            log.flush()
            if b"\r" in pending:
                on_line(shown(pending.rstrip(b"\r")))
    finally:
        if pending:
            log.write(shown(pending) + "\n")
            log.flush()


def _file_of(content: bytes) -> int:
    """Return an open file that nobody else sees."""
    file = os.memfd_create("given")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


async def _heard(talk: StreamReader, pid: int, patience: Patience) -> AsyncIterator[bytes]:
    """Yield what a program prints; kill it and raise ``SilentError`` after too long a silence."""
    import asyncio  # noqa: PLC0415

    before = -1
    while True:
        try:
            chunk = await asyncio.wait_for(talk.read(1 << 16), patience.seconds)
        except TimeoutError:
            written = process_tree.written(pid) if patience.writing else before
            if written == before:
                report = masked(process_tree.report(pid))
                process_tree.kill(pid)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(talk.read(), _GRACE)
                raise SilentError(report) from None
            before = written
            continue
        if not chunk:
            return
        yield chunk


async def _end(child: Process) -> None:
    import asyncio  # noqa: PLC0415

    if child.returncode is not None:
        return
    for number, grace in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), grace)
            return


def bound(command: Sequence[str]) -> list[str]:
    """Return a command that gets TERM when this program ends, even by SIGKILL."""
    setpriv, bash = find("setpriv"), find("bash")
    if not setpriv or not bash:
        return list(command)
    script = Path(__file__).parent / "scripts/lifeline.sh"
    return [str(setpriv), "--pdeathsig", "TERM", str(bash), str(script), str(os.getpid()), *command]


def become(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Replace this program by another, which gets its signals and gives its exit code."""
    trace(command)
    try:
        os.execvpe(command[0], list(command), dict(env))  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise _not_started(command, error) from error


def find(program: str) -> Path | None:
    """Return the path of a program that can be started, or None."""
    # A login shell of an ordinary user may lack the sbin folders, where debootstrap lies.
    folders = [*os.get_exec_path(), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    for folder in folders:
        path = Path(folder) / program
        if os.access(path, os.X_OK) and path.is_file():
            return path
    return None


def _not_started(command: Sequence[str], error: OSError) -> HostError:
    return HostError(
        Problem(
            f"cannot start {command[0]}",
            why=error.strerror or str(error),
            hint=hint_for(error.errno) or "lumicontainer doctor says what this host lacks",
        )
    )
