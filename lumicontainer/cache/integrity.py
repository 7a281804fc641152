"""Prove that an object of a cache has the bytes that its sums name."""

import errno
import hashlib
from collections.abc import Callable, Collection
from io import BufferedReader
from pathlib import Path

from lumicontainer.cache.objects import ENTRY, LARGEST, SUMS, object_name, parse_facts
from lumicontainer.system.files.regular import open_no_link


class Damaged(Exception):  # noqa: N818 - callers catch it
    """An object differs from what was stored."""


def prove(folder: Path, name: str = "") -> None:
    """Raise ``Damaged`` if a byte of an object differs, ``FileNotFoundError`` if it is missing.

    ``name`` is its name if the folder has another one. Raises ``OSError`` if the system cannot read
    it, such as a client that lost its server for a moment.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    try:
        names = {path.name for path in folder.iterdir()}
        prove_files(names, lambda file: open_no_link(folder / file), name or folder.name)
    except OSError as error:
        # It is missing, or no file: a folder, a link, a pipe.
        if error.errno in (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            raise Damaged(str(error)) from error
        raise


def prove_files(names: Collection[str], opened: Callable[[str], BufferedReader], name: str) -> None:
    """Raise ``Damaged`` if a byte of the files of the object ``name`` differs."""

    def read(file: str) -> bytes:
        with opened(file) as stream:
            return stream.read(LARGEST)

    named, present = sums_of(read(SUMS)), {*names} - {SUMS}
    if present != named.keys():
        raise Damaged(f"its files differ from its sums: {sorted(present ^ named.keys())}")
    for file, digest in named.items():
        with opened(file) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise Damaged(f"{file} has changed: its sha256 differs")
    try:
        about = parse_facts(read(ENTRY))
        if object_name(about["key"], about["parent"]) != name:
            raise Damaged("it belongs to another object")
    except ValueError as error:
        raise Damaged(str(error)) from error


def sums_of(content: bytes) -> dict[str, str]:
    """Return the sha256 of each file that sums name; raise ``Damaged`` if they are invalid."""
    try:
        # Not splitlines(), which accepts a damaged line end as another kind of it.
        rows = [line.split("  ", 1) for line in content.decode().removesuffix("\n").split("\n")]
        named = {name: digest for digest, name in rows}
    except ValueError as error:
        raise Damaged(f"its sums are invalid: {error}") from error
    if len(named) < len(rows):
        raise Damaged("its sums name a file twice")
    if strange := next(filter(_is_strange, named), ""):
        raise Damaged(f"invalid name of a file: {strange[:60]!a}")
    return named


def _is_strange(name: str) -> bool:
    return "/" in name or "\0" in name or name in (".", "..")


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
