"""Find libraries and versions that programs need but would not find, without starting them."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .loader import Library, Tree
from .reader import Elf


class Unmet(NamedTuple):
    """A missing library and the file that needs it; ``version`` if the library is too old."""

    asker: str
    library: str
    version: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.version:
            return f"{self.path} has no version {self.version}, which {self.asker} needs"
        return f"{self.library} not found, which {self.asker} needs"


def unmet(tree: Tree, files: Mapping[str, Elf]) -> list[Unmet]:
    """Return the needs of ``files`` of a tree, by their paths, that the loader would not find."""
    askers: dict[str, list[Library]] = {}
    edges: list[tuple[Library, Library]] = []
    open_: list[tuple[Library, str]] = []
    for path, elf in files.items():
        asker = Library(os.path.basename(path), path, elf)
        for name in elf.needed:
            library = tree.find(name, (asker,))
            if library is None:
                open_.append((asker, name))
            else:
                askers.setdefault(_real(tree, library.path), []).append(asker)
                edges.append((asker, library))
    # A library that is not found is present if a file that loads its user has loaded it already:
    # the loader loads each name once in a process.
    missing = [
        Unmet(asker.path, name)
        for asker, name in open_
        if not _is_loaded_by_others(tree, name, asker, askers.get(_real(tree, asker.path), ()))
    ]
    return [*missing, *_too_old(edges)]


def _real(tree: Tree, path: str) -> str:
    return tree.file(path)[len(tree.root) :]


def _is_loaded_by_others(tree: Tree, name: str, asker: Library, loaders: Iterable[Library]) -> bool:
    """Return whether a file that loads ``asker`` loads the library too, or passes its path on."""
    return any(
        (name in loader.elf.needed and tree.find(name, (loader,)) is not None)
        or tree.find(name, (asker, loader)) is not None
        for loader in loaders
    )


def _too_old(edges: Iterable[tuple[Library, Library]]) -> Iterator[Unmet]:
    for asker, library in edges:
        # The loader accepts a library without versions.
        provides = library.elf.provides
        for version in asker.elf.requires if provides else ():
            own = version.file in (library.name, library.elf.soname)
            if own and not version.weak and version.name not in provides:
                yield Unmet(asker.path, version.file, version.name, library.path)


def brought_by_others(
    needs: Sequence[Unmet], owners: Mapping[str, str], loads: Mapping[str, Iterable[str]]
) -> list[Unmet]:
    """Return those of ``needs`` that no other package has loaded before.

    ``owners`` maps each library to its package, ``loads`` each package to those whose libraries it
    loads before its own.
    """
    owned = {(owner, os.path.basename(path)) for path, owner in owners.items()}

    def is_loaded(each: Unmet) -> bool:
        loaded = loads.get(owners.get(each.asker, ""), ())
        return any((package, each.library) in owned for package in loaded)

    return [each for each in needs if each.version or not is_loaded(each)]
