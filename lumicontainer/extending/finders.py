"""Find modules as the Python of an image does. Nothing is imported."""

from importlib.machinery import (
    BYTECODE_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path

_LIBRARIES = ("x86_64-linux-gnu", "x86_64-linux-musl")
_KINDS = ("", "t", "d", "td")
"""Builds of CPython: plain, with free threads, and those to debug them."""


def module_finder(folder: Path, python: str) -> FileFinder:
    """Return what finds modules in a folder for a version of Python such as 3.11.

    Those that are compiled for another version are not found.
    """
    number = python.replace(".", "")
    exact = [f".cpython-{number}{kind}-{each}.so" for kind in _KINDS for each in _LIBRARIES]
    return FileFinder(
        str(folder),
        (ExtensionFileLoader, [*exact, ".abi3.so", ".abi3t.so", ".so"]),
        (SourceFileLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )


def is_extension_module(path: str) -> bool:
    """Return whether a path names a compiled module that no package holds."""
    return "/" not in path and path.endswith(".so") and path.partition(".")[0].isidentifier()
