"""The key that authenticates the ranks of a step, and its distribution by rank 0."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence

from ...errors import ENVIRONMENT, UNFIT, LaunchError
from ...launch.launchers import Launch
from ..resources import KEY_VARIABLE

# Other users of the node can find out everything that a launcher sets. So rank 0 creates a random
# key, and writes it to a file that only its user can read, in folders that other ranks may share.
# LUMI_VERIFY_SECRET replaces the file: only its user can read the environment of a process
# too (``/proc/PID/environ``).

# A command that sets a secret for later steps.
SET_ONE = f"export {KEY_VARIABLE}=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')"
LEAST = 16  # the least characters of a secret: 64 bits as hexadecimal digits
# Variables that identify a step, and are not secret. MPICH's mpiexec sets none.
_OF_STEP = (
    *("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_LAUNCHER_PORT", "SLURM_SRUN_COMM_PORT"),
    *("PMI_JOBID", "MASTER_PORT", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
_OF_NODE = ("/dev/shm", "/tmp")
_LINE = re.compile(rb"(\d{1,5}) ([0-9a-f]{64})\n")
_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC


class UntrustedError(Exception):
    """Report why a file may not be this user's."""


def of_step(env: Mapping[str, str]) -> str:
    """Return a name of the step, equal on all of its ranks and different for other steps."""
    text = "\0".join(f"{name}={env.get(name, '')}" for name in _OF_STEP)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_given_key(env: Mapping[str, str]) -> bytes | None:
    """Return this step's key from LUMI_VERIFY_SECRET; None if that is not set."""
    secret = env.get(KEY_VARIABLE, "")
    if not secret:
        return None
    if len(secret) < LEAST:
        why = f"it has {len(secret)} characters, but needs at least {LEAST}"
        raise LaunchError(f"{KEY_VARIABLE} is too short", ENVIRONMENT, why, SET_ONE)
    text = f"{of_step(env)} {secret}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def files(env: Mapping[str, str], launch: Launch) -> list[str]:
    """Return the possible files of the step's key, in folders that other ranks may see."""
    folders = [env.get("HOME") or os.path.expanduser("~")]
    with contextlib.suppress(FileNotFoundError):  # the folder was removed
        folders.insert(0, os.getcwd())
    if launch.on_one_node():
        folders += [env.get("TMPDIR", ""), *_OF_NODE]
    name = f".lumi-verify-{of_step(env)}.key"
    return [os.path.join(folder, name) for folder in dict.fromkeys(folders) if folder]


def publish(paths: Sequence[str], port: int, key: bytes) -> list[str]:
    """Write the key and the port of rank 0; return the written files.

    Raises LaunchError if no folder permits a file that only this user can read.
    """
    written, refused = [], []
    for path in paths:
        try:
            _write(path, f"{port} {key.hex()}\n".encode())
            if read(path) != (port, key):
                raise UntrustedError(f"{path} is another user's")
        except (OSError, UntrustedError) as error:
            refused.append(str(error))
        else:
            written.append(path)
    if not written:
        what, host = "cannot share a key with the other ranks", os.uname().nodename
        hint = f"start the ranks in a folder of yours that all nodes share, or {SET_ONE}"
        raise LaunchError(what, host, "; ".join(refused), hint, code=UNFIT)
    return written


def withdraw(paths: Iterable[str], port: int, key: bytes) -> None:
    """Remove the files with this key; files of other runs stay."""
    for path in paths:
        try:
            if read(path) == (port, key):
                os.unlink(path)
        except (OSError, UntrustedError):  # the folder may have been removed
            continue


def read(path: str) -> tuple[int, bytes] | None:
    """Return the port of rank 0 and the key; None if there is no such file.

    Raises UntrustedError if another user may have written the file, or may read it.
    """
    try:
        # If it is a pipe, do not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _OPEN)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UntrustedError(f"{path}: {error.strerror}") from None
    try:
        why = _untrusted(os.fstat(descriptor))
        match = None if why else _LINE.fullmatch(os.read(descriptor, 128))
    finally:
        os.close(descriptor)
    if match is None:
        raise UntrustedError(f"{path} {why or 'has no key'}")
    return int(match[1]), bytes.fromhex(match[2].decode())


def _untrusted(seen: os.stat_result) -> str:
    if not stat.S_ISREG(seen.st_mode):
        return "is not a regular file"
    if seen.st_uid != os.geteuid():
        return f"belongs to the user {seen.st_uid}, not to {os.geteuid()}"
    if seen.st_mode & 0o077:
        return f"is open to other users (mode {seen.st_mode & 0o777:o})"
    if seen.st_nlink != 1:
        return "has a second name (hard link)"
    return ""


def _write(path: str, content: bytes) -> None:
    partial = f"{path}.{os.urandom(8).hex()}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
        os.rename(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
