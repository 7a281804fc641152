"""Put the sources that users name by their place into files, and name them in the lock.

Repositories are fetched on the host, where none of their code runs. Containers see copies only.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from packaging.pylock import Package, PackageArchive, PackageDirectory, PackageVcs, Pylock

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.reading.references import Reference
from lumicontainer.extending.sources.archive import pack_folder
from lumicontainer.host import git
from lumicontainer.host.site import Site
from lumicontainer.packages.project import stated_name
from lumicontainer.packages.toml import TomlError, read_toml
from lumicontainer.system.files.regular import open_no_link, open_regular
from lumicontainer.system.files.temporary import temporary_folder
from lumicontainer.system.files.write import write_whole
from lumicontainer.system.os_errors import refused

_SKIPPED = frozenset(
    {".git", ".hg", ".venv", "venv", ".tox", ".nox", "node_modules"}
    | {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""Names in a folder of this host that are not part of a source."""
_HISTORY = ("setuptools_scm", "setuptools-scm", "hatch-vcs", "vcs-versioning")
_PROJECT = ("pyproject.toml", "setup.cfg", "setup.py")
_ARCHIVAL = ".git_archival.txt"
"""Where projects whose version is a tag of git find it in an archive of git."""
_LARGEST = 1 << 20


Say: TypeAlias = Callable[[str], None]


class PreparedSource(NamedTuple):
    """Hold a file that is a package, and its origin as the lock names it."""

    name: str
    """Empty while only its code knows it."""
    file: Path
    origin: PackageVcs | PackageDirectory | PackageArchive
    """Its origin in a lock."""
    reference: Reference
    """The user's name for it."""
    digest: str = ""
    """The sha256 of a file or a folder of this host; a repository has its commit."""

    @property
    def line(self) -> str:
        """Return the requirement by which uv finds it."""
        return self.reference.line(self.name, self.file)


class Prepared(NamedTuple):
    """Hold the files of all references."""

    sources: Sequence[PreparedSource] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the requirements by which uv finds them."""
        return tuple(each.line for each in self.sources)

    def with_names(self, name_of: Callable[[PreparedSource], str]) -> "Prepared":
        """Return them with the names that ``name_of`` finds where only code knows them."""
        return Prepared([each._replace(name=each.name or name_of(each)) for each in self.sources])

    def named_in(self, lock: Pylock) -> Pylock:
        """Return a lock that names their origins, not the copies for one call."""
        origins = {normal(each.name): each.origin for each in self.sources}
        return replace(lock, packages=[_name_origin(each, origins) for each in lock.packages])


def prepare_sources(
    references: Iterable[Reference], folder: Path, site: Site, say: Say
) -> Prepared:
    """Put the source of each reference into ``folder``.

    Raises ``DownloadError`` if a repository does not come.
    """
    return Prepared([_prepare(each, folder, site, say) for each in references])


def digest_of(reference: Reference) -> str:
    """Return what changes when the files of a reference do; empty for a repository."""
    if reference.git:
        return ""
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        return _take_local(reference, Path(folder))[1]


def _prepare(reference: Reference, folder: Path, site: Site, say: Say) -> PreparedSource:
    place = Path(tempfile.mkdtemp(dir=folder))
    if reference.git:
        return _prepare_git(reference, place, site, say)
    file, digest = _take_local(reference, place)
    if reference.hashes and digest not in reference.hashes:
        what, why = f"{file.name} does not have the given hash", f"it has sha256:{digest}"
        hint = "compare the given hash with the publisher's; pip hash FILE prints one"
        raise InputError(Problem(what, reference.path, why, hint))
    name, path = reference.name or project_name(Path(reference.path)), reference.path
    if Path(reference.path).is_dir():
        return PreparedSource(name, file, PackageDirectory(path=path), reference, digest)
    archive = PackageArchive(path=path, hashes={"sha256": digest})
    return PreparedSource(name, file, archive, reference, digest)


def _take_local(reference: Reference, place: Path) -> tuple[Path, str]:
    """Return a copy of a file, or an archive of a folder, and its sha256."""
    path = Path(reference.path)
    if path.is_dir():
        file = place / "source.tar.gz"
        return file, pack_folder(path, file, "source-0", _SKIPPED)
    copy = place / path.name
    try:
        with open_regular(path) as read, copy.open("wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
        with copy.open("rb") as copied:
            return copy, hashlib.file_digest(copied, "sha256").hexdigest()
    except OSError as error:
        raise refused(error, "cannot read the package", str(path)) from error


def _prepare_git(reference: Reference, place: Path, site: Site, say: Say) -> PreparedSource:
    url, revision = reference.git, reference.revision
    git.require_git()
    commit = git.resolve_revision(url, revision, site.mirrors, site.trust)
    if commit != revision:
        say(f"{url}: {revision or 'its main branch'} is the commit {commit}")
    top = git.fetch_tree(url, commit, place, site, say).resolve()
    tree = _find_folder(top, reference.subdirectory)
    if tree is None:
        what, hint = f"there is no folder '{reference.subdirectory}'", "correct the subdirectory"
        raise InputError(Problem(what, url, f"the commit is {commit}", hint))
    name = reference.name or project_name(tree)
    if _needs_history(tree):
        described = git.describe_commit(url, commit, site.mirrors, site.trust)
        _write_version(tree / _ARCHIVAL, commit, described)
    file = place / f"{normal(name) or 'source'}.tar.gz"
    pack_folder(tree, file, "source-0")
    shutil.rmtree(top)
    origin = PackageVcs(
        type="git",
        url=url,
        requested_revision=revision or None,
        commit_id=commit,
        subdirectory=reference.subdirectory or None,
    )
    return PreparedSource(name, file, origin, reference)


def _write_version(path: Path, commit: str, described: str) -> None:
    try:
        write_whole(path, f"node: {commit}\ndescribe-name: {described}\n".encode())
    except OSError as error:
        raise refused(error, "cannot write the version into the source", str(path)) from error


def _find_folder(top: Path, name: str) -> Path | None:
    """Return where a folder of a repository is; None if it is missing, or a link leads out."""
    try:
        folder = (top / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # A loop of links, for Python < 3.13, or a NUL.
        return None
    return folder if folder.is_dir() and folder.is_relative_to(top) else None


def project_name(folder: Path) -> str:
    """Return the name that the files of a project state; empty if only its code knows it."""
    with suppress(OSError, TomlError):
        return stated_name(read_toml(_text(folder / "pyproject.toml")))
    return ""


def _text(path: Path) -> str:
    with open_no_link(path) as file:
        return file.read(_LARGEST).decode("utf-8", "replace")


def _needs_history(folder: Path) -> bool:
    """Return whether the version of a project comes from a tag."""
    text = ""
    for name in _PROJECT:
        with suppress(OSError):
            text += _text(folder / name)
    return any(word in text for word in _HISTORY)


def _name_origin(
    package: Package, origins: Mapping[str, PackageVcs | PackageDirectory | PackageArchive]
) -> Package:
    origin = origins.get(package.name) if package.archive else None
    match origin:
        case PackageVcs():
            return replace(package, archive=None, vcs=origin)
        case PackageDirectory():
            return replace(package, archive=None, directory=origin)
        case PackageArchive():
            return replace(package, archive=origin)
    return package
