"""Honour the hashes that users give: a lock keeps only the files that have one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from packaging.pylock import Package, Pylock

from lumicontainer.errors import InputError, Problem
from lumicontainer.packages.pylock import hashes_of, with_hashes


def require_hashes(lock: Pylock, hashes: Mapping[str, frozenset[str]]) -> Pylock:
    """Return a lock with only the files that users allow; raise ``InputError`` if none is left."""
    kept, problems = list[Package](), list[Problem]()
    for package in lock.packages:
        allowed = hashes.get(package.name)
        if not allowed:
            kept.append(package)
        elif allowed.isdisjoint(found := hashes_of(package)):
            problems.append(_refuse(package, found))
        else:
            kept.append(package if package.archive else with_hashes(package, allowed))
    if problems:
        raise InputError(*problems)
    return replace(lock, packages=kept)


def _refuse(package: Package, found: Sequence[str]) -> Problem:
    why = f"its files have {_some(found)}" if found else "its source has no sha256"
    hint = "compare the hash with that of the publisher; pip hash FILE prints one"
    what = f"no file of {package.name} {package.version} has the given hash"
    return Problem(what, "", why, hint)


def _some(found: Sequence[str]) -> str:
    more = ", …" if len(found) > 2 else ""
    return ", ".join(f"sha256:{each}" for each in sorted(found)[:2]) + more
