"""The key by which the ranks of a step know each other, and how rank 0 hands it to the others.

A launcher tells its processes nothing that a stranger on the node could not find out. So rank 0
makes a random key and writes it to a file that its user alone can read, in the folders that other
ranks may see as well. LUMI_VERIFY_SECRET takes the place of such a file: the environment of a
process is its user's alone to read, too (``/proc/PID/environ``).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence

from ...errors import MISUSED, UNFIT, LaunchError
from ...launch.launchers import Launch

GIVEN = "LUMI_VERIFY_SECRET"
SET_ONE = f"export {GIVEN}=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')"
"""A command that gives the ranks of the steps that follow a secret."""
LEAST = 16
"""Characters of a secret: those of 64 bits as hexadecimal digits."""
_OF_STEP = (
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_LAUNCHER_PORT", "SLURM_SRUN_COMM_PORT"),
    *("PMI_JOBID", "MASTER_PORT", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
"""What tells a step from others; anybody may know it. MPICH's mpiexec sets nothing of the kind."""
_OF_NODE = ("/dev/shm", "/tmp")
_LINE = re.compile(rb"(\d{1,5}) ([0-9a-f]{64})\n")
_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedError(Exception):
    """Tell why a file is not the one that this user wrote."""


def of_step(env: Mapping[str, str]) -> str:
    """Return a name of the step, the same on each of its ranks and another for another step."""
    told = "\0".join(f"{name}={env.get(name, '')}" for name in _OF_STEP)
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def given(env: Mapping[str, str]) -> bytes | None:
    """Return the key that LUMI_VERIFY_SECRET makes for this step; None where it is not set."""
    secret = env.get(GIVEN, "")
    if not secret:
        return None
    if len(secret) < LEAST:
        raise LaunchError(
            f"{GIVEN} is too short",
            where="the environment of this process",
            why=f"it has {len(secret)} characters; at least {LEAST} cannot be guessed",
            hint=SET_ONE,
            code=MISUSED,
        )
    text = f"{of_step(env)} {secret}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def files(env: Mapping[str, str], launch: Launch) -> list[str]:
    """Return where the key of a step may lie: in folders that the other ranks may see."""
    folders = [_here(), env.get("HOME") or os.path.expanduser("~")]
    if launch.on_one_node():
        folders += [env.get("TMPDIR", ""), *_OF_NODE]
    known: dict[tuple[int, int], str] = {}
    for folder in folders:
        try:
            seen = os.stat(folder)
        except OSError:
            continue
        known.setdefault((seen.st_dev, seen.st_ino), folder)
    name = f".lumi-verify-{of_step(env)}.key"
    return [os.path.join(folder, name) for folder in known.values()]


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # somebody has removed it
        return ""


def publish(paths: Sequence[str], port: int, key: bytes) -> list[str]:
    """Write the key, with the port that rank 0 listens at; return the files that hold it.

    Raises LaunchError where no folder takes a file that only this user can read.
    """
    written, refused = [], []
    for path in paths:
        try:
            _write(path, f"{port} {key.hex()}\n".encode())
            if read(path) != (port, key):
                raise UntrustedError(f"{path} is another's")
        except (OSError, UntrustedError) as error:
            refused.append(str(error))
        else:
            written.append(path)
    if not written:
        raise LaunchError(
            "cannot share a key with the other ranks",
            where=os.uname().nodename,
            why="; ".join(refused) or "there is no folder that all ranks see",
            hint=f"start the ranks in a folder of yours that all nodes see, or {SET_ONE}",
            code=UNFIT,
        )
    return written


def withdraw(paths: Iterable[str], port: int, key: bytes) -> None:
    """Remove the files that hold a key; one that another run put there meanwhile stays."""
    for path in paths:
        try:
            if read(path) == (port, key):
                os.unlink(path)
        except (OSError, UntrustedError):  # a folder may go before its ranks do
            continue


def read(path: str) -> tuple[int, bytes] | None:
    """Return the port of rank 0 and the key; None where there is no such file.

    Raises UntrustedError where another user may have written the file, or may read it.
    """
    try:
        # Of a pipe that somebody put there, nobody waits for the other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _OPEN)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UntrustedError(f"{path}: {error.strerror}") from None
    try:
        why = _untrusted(os.fstat(descriptor))
        found = None if why else _LINE.fullmatch(os.read(descriptor, 128))
    finally:
        os.close(descriptor)
    if found is None:
        raise UntrustedError(f"{path} {why or 'holds no key'}")
    return int(found[1]), bytes.fromhex(found[2].decode())


def _untrusted(seen: os.stat_result) -> str:
    if not stat.S_ISREG(seen.st_mode):
        return "is not a regular file"
    if seen.st_uid != os.geteuid():
        return f"belongs to the user {seen.st_uid}, not to {os.geteuid()}"
    if seen.st_mode & 0o077:
        return f"can be used by others than its owner (mode {seen.st_mode & 0o777:o})"
    if seen.st_nlink != 1:
        return "has another name as well"
    return ""


def _write(path: str, content: bytes) -> None:
    """Write a file of this user alone, and give it its name when it is whole."""
    partial = f"{path}.{os.urandom(8).hex()}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
        os.rename(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
