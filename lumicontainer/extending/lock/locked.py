"""Read from a lock which file of each package an image needs, and the place of its source."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, PackageArchive, PackageSdist, PackageWheel, Pylock
from packaging.utils import BuildTag, InvalidWheelFilename, parse_wheel_filename

from lumicontainer.core.yaml.urls import HTTP, HTTPS, find_url_fault
from lumicontainer.errors import InputError, Problem
from lumicontainer.packages.tags import tags_for

_PLATFORMS = (
    *(f"manylinux_2_{number}_x86_64" for number in range(99, 4, -1)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
)
"""The best first. Uv has left out the wheels that need a newer glibc than the image's."""


class RemoteFile(NamedTuple):
    """Hold a file of a package, by its hash. The index names it, whatever its address is."""

    url: str
    sha256: str
    name: str

    @property
    def is_wheel(self) -> bool:
        """Return whether nothing has to be built."""
        return self.name.endswith(".whl")


class Locked(NamedTuple):
    """Hold one package of a lock: it has a file, or it is a folder of the user's own code."""

    name: str
    version: str
    """Empty for code that has no fixed one."""
    file: RemoteFile | None
    folder: Path | None = None

    @property
    def is_wheel(self) -> bool:
        """Return whether nothing has to be built."""
        return self.file is not None and self.file.is_wheel


def read_locked(lock: Pylock, python: str) -> list[Locked]:
    """Return the packages of a lock, each with its best file for an image with this Python.

    Raises ``InputError`` for a package without a hash or with another kind of source, and for an
    address with a secret: the index chose it, and the lock would keep it.
    """
    order = {tag: number for number, tag in enumerate(tags_for(python, _PLATFORMS))}

    def rank(file: RemoteFile) -> tuple[int, BuildTag]:
        _, _, build, tags = parse_wheel_filename(file.name)
        best = min((order[tag] for tag in tags if tag in order), default=len(order))
        # Of equal wheels the highest build is the one that uv chose.
        return -best, build

    locked, problems = list[Locked](), list[Problem]()
    for package in lock.packages:
        name, version = package.name, str(package.version or "")
        wheels = sorted(_files(package, package.wheels or ()), key=rank, reverse=True)
        files = [*wheels, *_files(package, filter(None, (package.sdist, package.archive)))]
        problems += _find_secret(package)
        if files:
            locked.append(Locked(name, version, files[0]))
        elif package.directory:
            locked.append(Locked(name, version, None, Path(package.directory.path)))
        else:
            what, hint = f"{name} has no file with a sha256", "name a release of an index"
            problems.append(Problem(what, hint=hint))
    if problems:
        raise InputError(*problems)
    return locked


def _find_secret(package: Package) -> Iterator[Problem]:
    """Yield a problem if an address in a lock would keep a secret, even one that is not used."""
    urls = [package.index, *(each.url for each in package.wheels or ())]
    urls += [each.url for each in (package.sdist, package.archive, package.vcs) if each]
    for url in filter(None, urls):
        if fault := find_url_fault(url, schemes=(HTTPS, HTTP, "file"), pinned=True):
            hint = "name another index; its own links hold what belongs to pip config or .netrc"
            yield Problem(f"{fault.what} of {package.name}", why=fault.why, hint=hint)
            return


def _files(
    package: Package, files: Iterable[PackageWheel | PackageSdist | PackageArchive]
) -> Iterator[RemoteFile]:
    """Yield the files that have a hash, without wheels of another package."""
    for each in files:
        if sha256 := each.hashes.get("sha256"):
            url = each.url or Path(each.path or "").as_uri()
            file = RemoteFile(url, sha256, getattr(each, "filename", "") or _last_part(url))
            if not file.is_wheel or _wheel_is_of(package, file.name):
                yield file


def _last_part(url: str) -> str:
    return unquote(urlsplit(url).path).rpartition("/")[2]


def _wheel_is_of(package: Package, name: str) -> bool:
    try:
        return parse_wheel_filename(name)[:2] == (package.name, package.version)
    except InvalidWheelFilename:
        return False
