"""Prove the sources whose hashes the user states, before their code says what they need."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.container import SOURCES
from lumicontainer.extending.install.download import download
from lumicontainer.extending.lock.hashes import require_hashes
from lumicontainer.extending.lock.locked import RemoteFile, read_locked
from lumicontainer.extending.resolving.resolution import Question, Resolution

Hashes = Mapping[str, frozenset[str]]
"""The sha256 that the files of a package may have, by its plain name."""


def prove_sources(resolution: Resolution, question: Question, hashes: Hashes) -> Question:
    """Return a question in which downloaded files replace the sources that have a hash.

    Raises ``Refusal`` or ``InputError`` if no file of a package has the user's hash, and
    ``DownloadError`` if it does not come. No code of a package runs.
    """
    requirements = {normal(each.name): each for each in _read(question.lines)}
    files = dict(_find_archives(requirements, hashes))
    files |= dict(_find_in_indexes(resolution, requirements, hashes))
    if not files:
        return question
    container = resolution.container
    places = download(files.values(), container.part(SOURCES), container.site)
    proven = {name: places[file].as_uri() for name, file in files.items()}

    def stand_in(line: str) -> str:
        for each in _read([line]):
            if place := proven.get(normal(each.name)):
                extras = f"[{','.join(sorted(each.extras))}]" if each.extras else ""
                return f"{each.name}{extras} @ {place}" + (f" ; {each.marker}" * bool(each.marker))
        return line

    return question._replace(lines=[*map(stand_in, question.lines)], named=question.lines)


def _read(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        with suppress(InvalidRequirement):  # Code of the user's own.
            yield Requirement(line)


def _find_archives(
    requirements: Mapping[str, Requirement], hashes: Hashes
) -> Iterator[tuple[str, RemoteFile]]:
    """Yield the sources that are named by their address and a hash, by their names."""
    for name, each in requirements.items():
        address, _, fragment = (each.url or "").partition("#")
        path = unquote(urlsplit(address).path)
        stated = {part[7:] for part in fragment.split("&") if part.startswith("sha256=")}
        sha256 = [*(stated or hashes.get(name, set()))]
        if not sha256 or not address.startswith("http") or path.endswith(".whl"):
            continue
        if len(sha256) > 1:
            what, why = f"{each.name} has {len(sha256)} hashes", "its address names one file"
            hint = "leave the hash of this file alone, as pip hash prints it"
            raise InputError(Problem(what, address, why, hint))
        yield name, RemoteFile(address, sha256[0], path.rpartition("/")[2])


def _find_in_indexes(
    resolution: Resolution, requirements: Mapping[str, Requirement], hashes: Hashes
) -> Iterator[tuple[str, RemoteFile]]:
    """Yield the sources of an index that have a hash of the user, by their names."""
    names = [name for name, each in requirements.items() if name in hashes and not each.url]
    if names:
        lock = resolution.find_newest([str(requirements[name]) for name in names])
        for each in read_locked(require_hashes(lock, hashes), resolution.facts.python):
            if each.file and not each.is_wheel:
                yield each.name, each.file
