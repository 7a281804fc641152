"""Read apt's lists of sources, in both of the forms that sources.list(5) describes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ONE_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)\s*(.*)")


class Entry(NamedTuple):
    """Hold one source of binary packages."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]


def parse(text: str) -> Iterator[Entry]:
    """Yield the entries of one file, whichever form it has."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in lines:
        found = _ONE_LINE.match(line.lstrip())
        if found:
            yield Entry(found.group(1), (found.group(2),), tuple(found.group(3).split()))
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        yield from _paragraph(paragraph)


def _says_no(words: list[str]) -> bool:
    """Tell whether apt takes it for no (apt-pkg/contrib/strutl.cc, StringToBool)."""
    return " ".join(words).lower() in ("no", "false", "without", "off", "disable", "0")


def _paragraph(text: str) -> Iterator[Entry]:
    unfolded = re.sub(r"\n[ \t]+", " ", text)
    rows = (line.partition(":") for line in unfolded.splitlines())
    fields = {name.strip().lower(): value.split() for name, colon, value in rows if colon}
    if "deb" not in fields.get("types", []) or _says_no(fields.get("enabled", [])):
        return
    for uri in fields.get("uris", []):
        yield Entry(uri, tuple(fields.get("suites", [])), tuple(fields.get("components", [])))


_SCHEMES = ("http", "https", "file")
"""Those that debootstrap knows: of apt's others, mirror+file: stands in Debian's cloud images."""


def main_archive(texts: Iterable[str], releases: Iterable[str]) -> str:
    """Return the URI that serves the component ``main`` of one of ``releases``, or nothing."""
    wanted = set(releases)
    for text in texts:
        for entry in parse(text):
            if entry.uri.partition(":")[0] not in _SCHEMES:
                continue
            if wanted & set(entry.suites) and "main" in entry.components:
                return entry.uri.rstrip("/")
    return ""
