"""Honour the hashes that users give: a lock keeps only the files that have one of them."""

import re
from collections.abc import Iterator, Mapping

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.lock.locked import BLOCK, rows

_FILE = re.compile(r'(?:[a-z]+ = )?\{ url = [^{}]*hashes = \{ sha256 = "([0-9a-f]+)" \} \},?\n?')
_NO_WHEELS = re.compile(r"wheels = \[\s*\]\n?")


def require_hashes(lock: str, hashes: Mapping[str, frozenset[str]]) -> str:
    """Return a lock with only the files that users allow; raise ``InputError`` if none is left."""
    head, *blocks = lock.split(BLOCK)
    kept = [_kept(f"{BLOCK}{block}", hashes) for block in blocks]
    if problems := [each for each in kept if isinstance(each, Problem)]:
        raise InputError(*problems)
    return "".join([head, *map(str, kept)])


def _kept(block: str, hashes: Mapping[str, frozenset[str]]) -> str | Problem:
    (row,) = rows(block)
    allowed = hashes.get(normal(row["name"]))
    if not allowed:
        return block
    found = set(_FILE.findall(block))
    if found & allowed:
        kept = _FILE.sub(lambda file: file[0] if file[1] in allowed else "", block)
        return _NO_WHEELS.sub("", kept)
    why = f"its files have {_some(found)}" if found else "its source has no sha256"
    hint = "compare the hash with that of the publisher; pip hash FILE prints one"
    return Problem(f"no file of {row['name']} {row['version']} has the given hash", "", why, hint)


def _some(found: set[str]) -> str:
    more = ", …" if len(found) > 2 else ""
    return ", ".join(f"sha256:{each}" for each in sorted(found)[:2]) + more


def of_package(row: Mapping[str, object]) -> Iterator[str]:
    """Yield the hashes of the files that a pylock.toml names for a package."""
    wheels = row.get("wheels")
    files = [row.get("sdist"), row.get("archive"), *(wheels if isinstance(wheels, list) else ())]
    for file in files:
        match file:
            case {"hashes": {"sha256": str(found)}}:
                yield found
