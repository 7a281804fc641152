"""Honour the hashes that users give, and keep no file in a lock without a hash."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from packaging.pylock import Package, Pylock

from lumicontainer.errors import InputError, Problem
from lumicontainer.packages.pylock import hashes_of, with_hashes


def require_hashes(
    lock: Pylock, hashes: Mapping[str, frozenset[str]], *, strict: bool = False
) -> Pylock:
    """Return a lock with only the files that have a sha256: one of the user's, if there are any.

    Raises ``InputError`` if no file of a package has the user's, and with ``strict`` for a package
    of an index that has no hash of the user (``--require-hashes``).
    """
    kept, problems = list[Package](), list[Problem]()
    for package in lock.packages:
        known = hashes_of(package)
        allowed = hashes.get(package.name)
        if strict and not allowed and not package.is_direct:
            problems.append(_unhashed(package))
        elif allowed and allowed.isdisjoint(known):
            problems.append(_refuse(package, known))
        else:
            kept.append(package if package.archive else with_hashes(package, allowed or known))
    if problems:
        raise InputError(*problems)
    return replace(lock, packages=kept)


def _refuse(package: Package, hashes: Sequence[str]) -> Problem:
    why = f"its files have {_some(hashes)}" if hashes else "its source has no sha256"
    hint = "compare the given hash with the publisher's; pip hash FILE prints one"
    what = f"no file of {package.name} {package.version} has the given hash"
    return Problem(what, "", why, hint)


def _unhashed(package: Package) -> Problem:
    named = f"{package.name}=={package.version}"
    what, why = f"no hash is given for {named}", "a file of requirements has --require-hashes"
    return Problem(what, "", why, f"add the line {named} --hash=sha256:…, or remove the option")


def _some(hashes: Sequence[str]) -> str:
    more = ", …" if len(hashes) > 2 else ""
    return ", ".join(f"sha256:{each}" for each in sorted(hashes)[:2]) + more
