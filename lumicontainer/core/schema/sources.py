"""Read, identify, pin and fetch the sources that a layer names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lumicontainer.core import shell
from lumicontainer.core.model import GitSource, LayerFile, SdistSource, Source, UrlSource
from lumicontainer.core.nodes import Mapping as MappingNode
from lumicontainer.core.nodes import Node
from lumicontainer.core.schema import readers, validators
from lumicontainer.core.shipped import step_script
from lumicontainer.errors import Place, Problems, did_you_mean

WHOLE_COMMIT = 40
"""Digits of a commit's hash; fewer name one commit today and may name two tomorrow."""

FETCH, MIRRORS = "fetch.sh", "mirrors.sh"
FOLDER = "sources"
"""What a step calls the folder in which the sources lie that it fetched: a variable of the shell,
and a folder in its stage."""

_PLAIN = "[A-Za-z0-9._~/%+,=&?@:-]"
_sha256 = readers.matching(r"[0-9a-f]{64}", "64 hexadecimal digits")
_url = readers.matching(rf"https://[A-Za-z0-9]{_PLAIN}*", "a URL of plain characters by https")
_any_url = readers.matching(rf"https?://[A-Za-z0-9]{_PLAIN}*", "a URL of plain characters by https")
_commit = readers.matching(
    rf"[0-9a-f]{{7,{WHOLE_COMMIT}}}", f"a commit of 7 to {WHOLE_COMMIT} hexadecimal digits"
)
_entry = readers.matching(
    r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a plain name, without a folder before it,"
)

_KINDS: dict[str, tuple[type[Any], readers.Reader[dict[str, Any]]]] = {
    "sdist": (
        SdistSource,
        readers.record(
            "an sdist source", {"sdist": validators.name, "sha256": _sha256}, required=("sdist",)
        ),
    ),
    "git": (
        GitSource,
        readers.record(
            "a git source",
            {"git": _url, "commit": _commit, "folder": _entry, "submodules": readers.boolean},
            required=("git", "commit", "folder"),
        ),
    ),
    "url": (
        UrlSource,
        readers.record(
            "a url source",
            {"url": _any_url, "sha256": _sha256, "file": _entry},
            required=("url", "file"),
        ),
    ),
}
"""By the key that decides the kind of a source."""


@readers.described({"oneOf": [readers.schema_of(reader) for _, reader in _KINDS.values()]})
def read_source(node: Node, problems: Problems) -> tuple[Source, Place] | None:
    """Read one source of any kind."""
    given = [key.text for key, _ in node.entries] if isinstance(node, MappingNode) else []
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        near = [did_you_mean(word, _KINDS) for word in given]
        hint = next((text for text in near if text.startswith("did")), "see the layers that have")
        what = "a source has exactly one of the keys " + ", ".join(map(repr, _KINDS))
        problems.add(what, node.place, hint=hint)
        return None
    before = len(problems.found)
    make, reader = _KINDS[kinds[0]]
    read = reader(node, problems)
    if read is None or len(problems.found) > before:
        return None
    if read.get("url", "").startswith("http:") and "sha256" not in read:
        why = "by plain http anyone on the way can change it"
        hint = "write https://, or add its sha256"
        problems.add(f"'{read['file']}' comes by plain http", node.place, why=why, hint=hint)
        return None
    return make(**read), node.place


@readers.described({"type": "array", "items": readers.schema_of(read_source)})
def read_sources(node: Node, problems: Problems) -> tuple[Source, ...] | None:
    """Read a list of sources, of which no two are the same thing."""
    found = readers.sequence(read_source)(node, problems)
    if found is None:
        return None
    first: dict[str, Place] = {}
    for source, place in found:
        called = identity(source)
        if first.setdefault(called, place) is not place:
            problems.add(
                f"two sources are '{called}'",
                place,
                why=f"the first is at line {first[called].line}",
                hint="give one of them another name, or remove it",
            )
    return tuple(source for source, _ in found)


def identity(source: Source) -> str:
    """Return what a source is in its layer: of two with the same, the later one counts."""
    if isinstance(source, SdistSource):
        return f"Python {source.sdist}"
    return source.folder if isinstance(source, GitSource) else source.file


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
