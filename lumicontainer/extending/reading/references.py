"""Read references: sources of git, and wheels, archives and folders of this host."""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import parse_sdist_filename

from lumicontainer.core.model.requirements import NAME
from lumicontainer.core.model.wheel_names import normal, wheel_package
from lumicontainer.core.yaml.urls import HTTPS, find_url_fault, without_secrets
from lumicontainer.errors import Fault
from lumicontainer.extending.reading.lines import PackageLine

ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
"""The ends of names of archives that uv and Python unpack."""
_FORM = re.compile(
    rf"(?:(?P<name>{NAME})\s*(?:(?P<extras>\[[^\]]*\])\s*)?@\s*)?"
    r"(?P<place>\S.*?)(?:(?<!\s)\s+;\s*(?P<marker>.+))?"
)
_ENDS = "|".join(map(re.escape, (".whl", *ARCHIVES)))
_PATH = re.compile(rf"[^@\s]*(?:{_ENDS})|\.{{1,2}}/?|[~./][^@\s/]*/\S*")
_EXTRAS = re.compile(rf"(.+?)(\[\s*{NAME}(?:\s*,\s*{NAME})*\s*\])")
_GIT, _FILE = "git+", "file:"
_HASH = re.compile(r"sha256=[0-9A-Fa-f]{64}")
_REVISION = re.compile(r"(?!-)[\w./+-]+")
_FORMS = "NAME @ git+https://HOST/REPOSITORY@COMMIT"


class Reference(NamedTuple):
    """Name a package by where its source or its wheel is; the image's index is not asked."""

    git: str = ""
    """The URL of a repository; empty for a path."""
    path: str = ""
    """The path of a wheel, an archive or a folder of this host."""
    name: str = ""
    """As the user writes it, or as the file says it; empty if only the source knows it."""
    extras: str = ""
    marker: str = ""
    revision: str = ""
    subdirectory: str = ""
    hashes: tuple[str, ...] = ()

    def line(self, name: str, file: Path) -> str:
        """Return the requirement by which uv finds the file of a package, or of one to be named."""
        if not name:
            return file.as_uri()
        marker = f" ; {self.marker}" if self.marker else ""
        return f"{name}{self.extras} @ {file.as_uri()}{marker}"


def is_reference(text: str) -> bool:
    """Return whether a line names a source by its place, not a package of an index."""
    match = _FORM.fullmatch(text)
    place = match["place"] if match else ""
    if place.startswith((_GIT, _FILE)):
        return True
    bare = split_extras(place)[0]
    return "://" not in place and (
        bool(_PATH.fullmatch(bare)) or (os.sep in bare and _is_folder(bare))
    )


def _is_folder(path: Path | str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path raises an error for a name that is too long


def read_reference(line: PackageLine) -> Reference | Fault:
    """Return what a line refers to, or why it is refused."""
    match = _FORM.fullmatch(line.text)
    assert match is not None
    name, extras, marker = (match[each] or "" for each in ("name", "extras", "marker"))
    if wrong := _find_fault(f"{name or 'x'}{extras}{f'; {marker}' if marker else ''}", line.text):
        return wrong
    known = Reference(name=name, extras=extras, marker=marker, hashes=line.hashes)
    place = match["place"]
    return _of_git(known, place) if place.startswith(_GIT) else _of_path(known, place)


def _find_fault(requirement: str, text: str) -> Fault | None:
    try:
        Requirement(requirement)
    except InvalidRequirement as error:
        return Fault(f"invalid requirement {text!r}", str(error).splitlines()[0], f"write {_FORMS}")
    return None


def _of_git(known: Reference, place: str) -> Reference | Fault:
    whole, _, fragment = place.removeprefix(_GIT).partition("#")
    scheme, slashes, rest = whole.partition("://")
    host, slash, path = rest.partition("/")
    path, at, revision = path.partition("@")
    url, fields = f"{scheme}{slashes}{host}{slash}{path}", dict(parse_qsl(fragment))
    shown = without_secrets(url)
    if scheme != HTTPS:
        hint = "clone it, and name its folder: ./FOLDER"
        return Fault(f"cannot fetch '{shown}'", "git repositories are fetched by https only", hint)
    if wrong := find_url_fault(url):
        return wrong
    if (at and not _REVISION.fullmatch(revision)) or ".." in revision:
        return Fault(f"invalid revision {revision!r} of '{shown}'", "", f"write {_FORMS}")
    if known.hashes:
        hint = "remove --hash, and name a commit: it is the hash of all files"
        return Fault(f"a repository of git has no sha256: '{shown}'", "", hint)
    egg = re.fullmatch(rf"({NAME})(\[[^\]]*\])?", fields.get("egg", ""))
    subdirectory = fields.get("subdirectory", "")
    if subdirectory.startswith("/") or ".." in subdirectory.split("/"):
        hint = "name a folder of the repository"
        return Fault(f"invalid subdirectory {subdirectory!r}", "it leads out of it", hint)
    return known._replace(
        git=url,
        name=known.name or (egg[1] if egg else ""),
        extras=known.extras or (egg[2] or "" if egg else ""),
        revision=revision,
        subdirectory=subdirectory.strip("/"),
    )


def _of_path(known: Reference, place: str) -> Reference | Fault:
    return _of_url(known, place) if place.startswith(_FILE) else _of_name(known, place)


def _of_url(known: Reference, place: str) -> Reference | Fault:
    place = place if place.startswith("file://") else f"file://{place.removeprefix(_FILE)}"
    if wrong := find_url_fault(place, schemes=("file",), pinned=True):
        return _with_url_to_write(wrong, known, place)
    parts = urlsplit(place)
    stated = _read_hash(known, parts.fragment)
    if isinstance(stated, Fault):
        return stated
    return _of_name(known._replace(hashes=stated), unquote(parts.path))


def _of_name(known: Reference, place: str) -> Reference | Fault:
    bare, extras = split_extras(place)
    path = Path(bare).expanduser().absolute()
    known = known._replace(path=os.path.normpath(path), extras=known.extras or extras)
    if _is_folder(path):
        if known.hashes:
            return Fault(f"a folder has no sha256: '{bare}'", "", "remove --hash")
        if (path / "pyproject.toml").is_file() or (path / "setup.py").is_file():
            return known
        hint = "write a pyproject.toml; setuptools documents a minimal one"
        return Fault(f"the folder '{bare}' has no pyproject.toml", "", hint)
    if not os.path.isfile(path):  # noqa: PTH113 - as in _is_folder
        hint = "correct the path; it counts from the current folder"
        return Fault(f"'{bare}' not found", f"there is no {path}", hint)
    return _of_file(known, path)


def _read_hash(known: Reference, fragment: str) -> tuple[str, ...] | Fault:
    """Return the hashes that a file may have by its line, and by the fragment of its URL."""
    hashes = known.hashes
    for part in filter(None, fragment.split("&")):
        name, _, value = part.partition("=")
        if name == "egg":
            continue
        if not _HASH.fullmatch(part):
            hint = "write #sha256= with 64 hexadecimal digits, as pip hash prints it"
            return Fault(f"cannot read '#{part}' behind a file", "", hint)
        if hashes and value.lower() not in hashes:
            return Fault("a file has two hashes", f"{value} and {hashes[0]}", "leave out the wrong")
        hashes = (value.lower(),)
    return hashes


def _with_url_to_write(wrong: Fault, known: Reference, place: str) -> Fault:
    """Return what is wrong with the URL of a path; the hint is one that works, if there is one."""
    url = f"file://{quote(unquote(place.removeprefix('file://')))}"
    if find_url_fault(url, schemes=("file",), pinned=True):
        return wrong
    word = f"{known.name}{known.extras} @ {url}" if known.name else url
    return wrong._replace(hint=f"write {shlex.quote(word)}")


def _of_file(known: Reference, path: Path) -> Reference | Fault:
    try:
        if path.suffix == ".whl":
            (name, _), *_ = wheel_package(path.name)
        elif path.name.endswith(ARCHIVES):
            name = known.name or parse_sdist_filename(path.name)[0]
        else:
            what = f"'{path.name}' is neither a wheel nor a source"
            return Fault(what, f"they end in .whl, {', '.join(ARCHIVES)}", "name another file")
    except ValueError:
        hint = f"write 'NAME @ {path.as_uri()}'; a wheel has the name that its build gave it"
        return Fault(f"the name of the file '{path.name}' does not say its package", "", hint)
    if known.name and normal(known.name) != normal(name):
        hint = f"write '{name} @ {path.as_uri()}'"
        return Fault(f"'{path.name}' is a wheel of {name}, not of {known.name}", "", hint)
    return known._replace(name=name)


def split_extras(place: str) -> tuple[str, str]:
    """Return a path, and the extras in brackets behind it, unless the brackets are of its name."""
    match = _EXTRAS.fullmatch(place)
    if match is None or os.path.lexists(place):
        return place, ""
    return match[1], "".join(match[2].split())
