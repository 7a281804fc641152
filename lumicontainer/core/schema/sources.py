"""Identify and fetch the sources that a layer names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lumicontainer.core import shell
from lumicontainer.core.model import GitSource, LayerFile, SdistSource, Source, UrlSource
from lumicontainer.core.shipped import step_script
from lumicontainer.core.yaml.validators import WHOLE_COMMIT

FETCH, MIRRORS = "fetch.sh", "mirrors.sh"
FOLDER = "sources"
"""What a step calls the folder in which the sources lie that it fetched: a variable of the shell,
and a folder in its stage."""


def is_pinned(source: Source) -> bool:
    """Return whether the bytes of a source are known before they are used."""
    if isinstance(source, GitSource):
        return len(source.commit) == WHOLE_COMMIT
    return bool(source.sha256)


def label_of(source: Source) -> str:
    """Return a source in words."""
    if isinstance(source, SdistSource):
        return f"Python {source.sdist}" + _hash(source.sha256)
    if isinstance(source, UrlSource):
        return f"{source.file} from {source.url}" + _hash(source.sha256)
    more = " with submodules" if source.submodules else ""
    return f"{source.folder} from {source.git}, commit {source.commit}{more}"


def _hash(sha256: str) -> str:
    return f", sha256 {sha256}" if sha256 else ""


def fetched(sources: Iterable[Source], files: Iterable[LayerFile]) -> tuple[Source, ...]:
    """Return the sources that a step with these files fetches: none, where no file uses them.

    A layer that compiles gives two steps, of which one alone works on sources, and these are large.
    """
    wanted = tuple(each for each in sources if not isinstance(each, SdistSource))
    uses = (f"${FOLDER}".encode(), f"${{{FOLDER}".encode())
    used = wanted and any(word in file.content for file in files for word in uses)
    return wanted if used else ()


def fetch_files(sources: Sequence[Source]) -> Iterator[LayerFile]:
    """Yield what a step needs to fetch sources, if there are any."""
    for name in (FETCH, MIRRORS) if sources else ():
        yield LayerFile(name, 0o644, step_script(name))


def fetch_text(sources: Sequence[Source], stage: str) -> str:
    """Return shell text that fetches sources into a folder of ``stage``, if there are any."""
    lines = [f"bash {stage}/{FETCH} {shell.words(_words(each))}\n" for each in sources]
    return "".join([f"export {FOLDER}={stage}/{FOLDER}\n", *lines]) if lines else ""


def _words(source: Source) -> tuple[str, ...]:
    if isinstance(source, GitSource):
        more = ("submodules",) if source.submodules else ()
        return ("git", source.git, source.commit, source.folder, *more)
    assert isinstance(source, UrlSource)
    more = (source.sha256,) if source.sha256 else ()
    return ("url", source.url, source.file, *more)
