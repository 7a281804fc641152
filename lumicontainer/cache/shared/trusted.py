"""Decide whose objects a build takes from a shared cache, and sign objects.

A layer is code that runs as its user. So a build takes objects of this user and of root only, and
of whom the user names:

    LUMICONTAINER_SHARED_CACHE_OWNERS     users whose objects are taken, and registries, such as
                                          oci://HOST/NAME, if all who may write there are trusted
    LUMICONTAINER_SHARED_CACHE_SIGNERS    allowed signers, a file as ssh-keygen(1) describes it
    LUMICONTAINER_SHARED_CACHE_DIGESTS    objects by the sha256 of their sums, a file as
                                          sha256sum(1) writes it
"""

import hashlib
import os
import pwd
import re
import tempfile
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, Place, Problem, Problems
from lumicontainer.system import process
from lumicontainer.system.files import trust
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.os_errors import refused

OWNERS, SIGNERS = "LUMICONTAINER_SHARED_CACHE_OWNERS", "LUMICONTAINER_SHARED_CACHE_SIGNERS"
DIGESTS = "LUMICONTAINER_SHARED_CACHE_DIGESTS"
LISTED = "someone in your list"
"""Stands for the publisher of an object that is trusted for its digest."""
_REGISTRY = "oci://"
_LARGEST = 16 << 20
_DIGEST = re.compile(rb"([0-9a-f]{64})(?: .*)?")
_SPACE = "lumicontainer"
"""The namespace of the signatures: a signature for another use proves nothing here."""


def trusted_owners() -> frozenset[int]:
    """Return the ids of trusted users; raise ``InputError`` if a user does not exist."""
    problems, owners = Problems(), {0, os.geteuid()}
    for name in _named_owners():
        if name.startswith(_REGISTRY):
            continue
        try:
            owners.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            problems.add(f"user '{name}' not found", OWNERS, hint="correct the name, or remove it")
    problems.raise_if_any()
    return frozenset(owners)


def trusted_registries() -> frozenset[str]:
    """Return the registries whose writers are trusted, each as ``oci://HOST/NAME``."""
    return frozenset(name for name in _named_owners() if name.startswith(_REGISTRY))


def _named_owners() -> list[str]:
    return re.findall(r"[^,\s]+", os.environ.get(OWNERS, ""))


def find_allowed_signers() -> Path | None:
    """Return the file of allowed signers; raise ``HostError`` if others could change it."""
    return _find_file(SIGNERS, "the allowed signers")


def find_trusted_digests() -> frozenset[str]:
    """Return the sha256 of the sums of trusted objects, as the user lists them.

    Raises ``HostError`` if others could change the list, ``InputError`` if it is not such a list.
    """
    what = "the list of trusted objects"
    path = _find_file(DIGESTS, what)
    if path is None:
        return frozenset()
    try:
        with open_regular(path) as file:
            lines = file.read(_LARGEST).splitlines()
    except OSError as error:
        raise refused(error, f"cannot read {what}", DIGESTS) from error
    problems, digests = Problems(), set()
    for number, text in enumerate(lines, 1):
        if match := _DIGEST.fullmatch(text):
            digests.add(match[1].decode())
        elif text.strip():
            why = f"expected a sha256 and a name, got {text[:80]!a}"
            hint = "sha256sum CACHE/objects/*/sums writes such lines"
            problems.add(f"{what} is invalid", Place(str(path), number), why=why, hint=hint)
    problems.raise_if_any()
    return frozenset(digests)


def _find_file(variable: str, what: str) -> Path | None:
    named = os.environ.get(variable)
    if not named:
        return None
    path = Path(named)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise refused(error, f"cannot read {what}", variable) from error
    problem = trust.doubt(path, what, variable)
    # Unlike other files of a project: the point is not to trust all of its members.
    if problem is None and mode & 0o022:
        what = f"cannot use {what}: others may write to the file"
        problem = Problem(what, named, hint=f"chmod go-w {named}")
    if problem:
        raise HostError(problem)
    return path


class Vouchers(NamedTuple):
    """Hold whom and what a user trusts, whoever keeps the bytes."""

    signers: Path | None = None
    digests: AbstractSet[str] = frozenset()

    @classmethod
    def named(cls) -> "Vouchers":
        """Return those that the environment names."""
        return cls(find_allowed_signers(), find_trusted_digests())

    def find(self, sums: bytes, signature: bytes) -> str:
        """Return who vouches for the sums of an object; empty if nobody does."""
        if hashlib.sha256(sums).hexdigest() in self.digests:
            return LISTED
        return signer(sums, signature, self.signers) if self.signers and signature else ""


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
