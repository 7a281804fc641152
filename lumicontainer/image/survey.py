"""Find out what an image that was built elsewhere holds, without starting it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.image import sif
from lumicontainer.image.inspect import LIMIT, read_file
from lumicontainer.system import budget, process
from lumicontainer.system.files.foreign import open_below

_VERSION = r"[0-9][\w.+!]{0,99}"
_PACKAGES = {
    **{name: name for name in ("apex", "deepspeed", "horovod", "mpi4py", "mpich")},
    "torch": "pytorch",
    "flash_attn": "flash-attention",
}
"""Layers by the name that Python's records give to their package."""
_PACKAGE = re.compile(
    rf"(/[\w./+-]*)/lib/python(3\.[0-9]+)/(?:site|dist)-packages/(\w+)-({_VERSION})\.dist-info"
)
_DPKG = "/var/lib/dpkg/status"
_DEBIAN_PACKAGES = {
    "libc6": "glibc",
    "libfabric1": "libfabric",
    "libfabric1t64": "libfabric",
    "libmpich12": "mpich",
    "libmpich12t64": "mpich",
}
"""Layers by the Debian package that has their library; only one for developers has its .pc."""
_DEBIAN = re.compile(rf"(?m)^(?:Package: ({'|'.join(_DEBIAN_PACKAGES)})$|Version: ({_VERSION}))")
"""The two lines of a package in Debian's list that count."""
_PYTHON = re.compile(r"(?:/usr(?:/local)?|/opt/[\w./-]+)/bin/python(3\.[0-9]+)")
_ROCM = re.compile(r"/opt/rocm[\w.-]*/\.info/version")
_PKGCONFIG = re.compile(r"/[\w./+-]*/pkgconfig/(libfabric|mpich)\.pc")
_PKGCONFIG_VERSION = rf"(?m)^Version: ({_VERSION})"
_PLUGIN = re.compile(r"/[\w./+-]*/lib(?:nccl|rccl)-net(?:-ofi)?\.so")
_SYSTEM = ("/usr", "/usr/local")
_MOST = 40
"""The most files of an image that are read for versions: each takes a program."""


class Survey(NamedTuple):
    """Hold what an image holds."""

    provides: dict[str, str]
    """Versions by the name of a layer or of what comes with one."""
    path: tuple[str, ...]
    """Folders that are put before PATH."""
    plugin: str
    """The path of the network plugin of RCCL; no file names its version. Empty if it is missing."""


def survey(image: Path) -> Survey:
    """Read an image file; raise ``InputError`` for another file."""
    return _surveyed(_files(image), lambda name: _text(image, name))


def survey_tree(tree: Path) -> Survey:
    """Return what an unpacked image holds; raise ``InputError`` for a file that is too large."""
    return _surveyed([*_paths_in(tree)], lambda name: _text_in(tree, name))


def _surveyed(names: Sequence[str], read: Callable[[str], str]) -> Survey:
    """Return what an image holds that has files of these ``names``; ``read`` returns their text."""
    provides: dict[str, str] = {}
    folders: tuple[str, ...] = ()
    packages = [match for name in names if (match := _PACKAGE.fullmatch(name))]
    # The Python that has PyTorch comes first.
    for folder, python, package, version in sorted(
        (match.groups() for match in packages), key=lambda each: each[2] != "torch"
    ):
        provides.setdefault("python", python)
        if package in _PACKAGES and python == provides["python"]:
            provides.setdefault(_PACKAGES[package], version)
            folders = folders or ((f"{folder}/bin",) if folder not in _SYSTEM else ())
    for name in names:
        if match := _PYTHON.fullmatch(name):
            provides.setdefault("python", match[1])
    provides.update(_versions(names, read))
    plugin = next(filter(_PLUGIN.fullmatch, names), "")
    return Survey(dict(sorted(provides.items())), folders, plugin)


def wrong_versions(stated: Mapping[str, str], provides: Mapping[str, str]) -> list[str]:
    """Return, in words, the versions that the layer of a base states and its image has not."""
    return [
        f"{name}: {version} in the layer, {provides.get(name, 'none')} in the image"
        for name, version in stated.items()
        if provides.get(name) != version
    ]


def _files(image: Path) -> Sequence[str]:
    """Return the absolute paths of all files and folders of an image."""
    place = str(sif.root(image).offset)
    words = ["unsquashfs", "-offset", place, "-dest", "/", "-ls", str(image.absolute())]
    listed = process.capture(words, limits=budget.FILES)
    return [re.sub("^/+", "/", each) for each in listed.splitlines()]


def _versions(names: Sequence[str], read: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    if _DPKG in names:
        yield from _debian_versions(read(_DPKG))
    kinds = ((name, _PKGCONFIG.fullmatch(name)) for name in names)
    files = ((name, kind) for name, kind in kinds if kind or _ROCM.fullmatch(name))
    for name, kind in islice(files, _MOST):
        if kind and (match := re.search(_PKGCONFIG_VERSION, read(name))):
            yield kind[1], match[1]
        elif not kind and (match := re.match(_VERSION, read(name))):
            yield "rocm", match[0]


def _debian_versions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the versions in a list of Debian's packages, each of which ends with a blank line."""
    for paragraph in text.split("\n\n"):
        versions = {bool(line[1]): line[1] or line[2] for line in _DEBIAN.finditer(paragraph)}
        if len(versions) == len(("name", "version")):
            yield _DEBIAN_PACKAGES[versions[True]], versions[False]


def _text(image: Path, name: str) -> str:
    return (read_file(image, name.lstrip("/")) or b"").decode("utf-8", "replace")


def _paths_in(tree: Path) -> Iterator[str]:
    """Yield the absolute paths of all files and folders of a tree."""
    for folder, folders, files in os.walk(tree):
        yield from (f"/{Path(folder, name).relative_to(tree)}" for name in (*folders, *files))


def _text_in(tree: Path, name: str) -> str:
    """Return the text of a file; empty if it is a link or a pipe, as in an image file."""
    try:
        with open_below(tree, name.lstrip("/")) as file:
            content = file.read(LIMIT + 1)
    except OSError:
        return ""
    if len(content) > LIMIT:
        what, why = "cannot read a file of the image", f"it is larger than {LIMIT} bytes"
        raise InputError(Problem(what, name, why, "use another image"))
    return content.decode("utf-8", "replace")
