"""Decide whose objects a build takes from a shared cache, and sign objects.

A layer is code that runs as its user. So a build takes objects of this user and of root only, and
of whom the user names:

    LUMICONTAINER_SHARED_CACHE_OWNERS     users whose objects are taken
    LUMICONTAINER_SHARED_CACHE_SIGNERS    allowed signers, a file as ssh-keygen(1) describes it
"""

import os
import pwd
import re
import tempfile
from pathlib import Path

from lumicontainer.errors import HostError, Problem, Problems
from lumicontainer.system import process
from lumicontainer.system.files import trust
from lumicontainer.system.os_errors import refused

OWNERS, SIGNERS = "LUMICONTAINER_SHARED_CACHE_OWNERS", "LUMICONTAINER_SHARED_CACHE_SIGNERS"
_SPACE = "lumicontainer"
"""The namespace of the signatures: a signature for another use proves nothing here."""


def trusted_owners() -> frozenset[int]:
    """Return the ids of trusted users; raise ``InputError`` if a user does not exist."""
    problems, owners = Problems(), {0, os.geteuid()}
    for name in re.findall(r"[^,\s]+", os.environ.get(OWNERS, "")):
        try:
            owners.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            problems.add(f"user '{name}' not found", OWNERS, hint="correct the name, or remove it")
    problems.raise_if_any()
    return frozenset(owners)


def find_allowed_signers() -> Path | None:
    """Return the file of allowed signers; raise ``HostError`` if others could change it."""
    named = os.environ.get(SIGNERS)
    if not named:
        return None
    path = Path(named)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise refused(error, "cannot read the allowed signers", SIGNERS) from error
    problem = trust.doubt(path, "the allowed signers", SIGNERS)
    # Unlike other files of a project: the point is not to trust all of its members.
    if problem is None and mode & 0o022:
        what = "cannot use the allowed signers: others may write to the file"
        problem = Problem(what, named, hint=f"chmod go-w {named}")
    if problem:
        raise HostError(problem)
    return path


def sign(content: bytes, key: str) -> bytes:
    """Return the signature of ``content`` by an SSH key; an agent may hold the private part."""
    command = ["ssh-keygen", "-Y", "sign", "-n", _SPACE, "-f", key]
    try:
        return process.capture(command, stdin=content).encode()
    except process.ProgramError as error:
        hint = "name the file of an SSH key: ~/.ssh/id_ed25519, or its .pub if an agent has the key"
        why = error.problems[0].why
        raise HostError(Problem("cannot sign", key, why, hint)) from error


def signer(content: bytes, signature: bytes, signers: Path) -> str:
    """Return the allowed signer who signed ``content``; empty if none did."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(signature)
        file.flush()
        words = ["-f", str(signers), "-s", file.name]
        done = process.run_to_end(["ssh-keygen", "-Y", "find-principals", *words])
        for name in done.stdout.replace(",", "\n").splitlines():
            verify = ["ssh-keygen", "-Y", "verify", "-n", _SPACE, "-I", name, *words]
            if process.run_to_end(verify, stdin=content).returncode == 0:
                return name
    return ""
