"""Find the packages that apt and pip report as missing, and where the recipe names them."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lumicontainer.core.model import requirements
from lumicontainer.core.model.source import sdists
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.core.resolve.decisions import ResolvedLayer
from lumicontainer.core.resolve.inputs import requirement_files
from lumicontainer.core.yaml.readers import Text
from lumicontainer.errors import Problem, did_you_mean

_UNREACHED = re.compile(
    r"(?m)^(?:W: |E: )?Failed to fetch|^Err:[0-9]"
    r"|^WARNING: (?:Retrying|[0-9]{3} |.*timed out)"
    r"|(?i:could not (?:fetch url|resolve|connect)|temporary failure)"
    r"|(?i:connection (?:broken|refused))"
)
"""Messages about a server that did not answer: then no package is known to be absent."""
_APT_NAME = re.compile(
    r"(?m)^E: (?:Unable to locate package (\S+)|Package '(\S+)' has no installation candidate)"
)
_APT_VERSION = re.compile(r"(?m)^E: Version '([^'\n]*)' for '([^'\n]*)' was not found")
_PIP = re.compile(
    r"(?m)^ERROR: Could not find a version that satisfies the requirement (\S+)(?: \(from .*?\))?"
    r" \(from versions: (.*)\)"
)
_SHOWN = 8
_PLACES = {
    "apt": ("Debian package", "apt's sources", "add its repository (the key 'apt_repositories')"),
    "pip": ("Python package", "the configured index", "name another index by pip config"),
}


class Absent(NamedTuple):
    """Hold a package that does not exist."""

    kind: str
    """``apt`` or ``pip``."""
    word: str
    """The name in the recipe, possibly with a version."""
    offered: tuple[str, ...] = ()
    """The existing versions, the oldest first."""


def absent(text: str) -> list[Absent]:
    """Return the packages that apt and pip did not find, if all their servers answered."""
    if _UNREACHED.search(text):
        return []
    packages = [Absent("apt", first or second) for first, second in _APT_NAME.findall(text)]
    packages += [Absent("apt", f"{name}={version}") for version, name in _APT_VERSION.findall(text)]
    for word, versions in _PIP.findall(text):
        offered = () if versions == "none" else tuple(re.split(r",\s*", versions))
        packages.append(Absent("pip", word, offered))
    return list(dict.fromkeys(packages))


def problem_of(of: Absent, layer: ResolvedLayer, names: Iterable[str] = ()) -> Problem | None:
    """Return the problem of an absent package; None if the layer does not name it.

    ``names`` are the existing packages.
    """
    where = next((place for word, place in _named(layer) if _is(of, word)), "")
    if not where:
        return None
    source, place, other = _PLACES[of.kind]
    name, version = _parted(of)
    if not version or (of.kind == "pip" and not of.offered):
        what = f"{source} '{name}' not found in {place}"
        near = did_you_mean(name, names) if names else ""
        hint = near if near.startswith("did") else f"correct the name, or {other}"
        return Problem(what, where, hint=hint)
    why = f"it has {', '.join(of.offered[-_SHOWN:])}" if of.offered else ""
    hint = f"write one of these, or {name} alone" if why else f"write {name} alone, and lock it"
    return Problem(f"{source} '{name}' has no version '{version}' in {place}", where, why, hint)


def _parted(of: Absent) -> tuple[str, str]:
    name, _, version = of.word.partition("=" if of.kind == "apt" else "==")
    return (name, version) if of.kind == "apt" else (re.split(r"[^\w.-]", name)[0], version)


def _is(of: Absent, word: str) -> bool:
    """Return whether a layer's word is the package; apt reports only a missing version."""
    if of.kind == "apt":
        return word == of.word or word.partition("=")[0] == of.word
    return word.replace(" ", "") == of.word or normal(word) == normal(of.word)


def _named(layer: ResolvedLayer) -> Iterator[tuple[str, str]]:
    """Yield the packages that a layer installs by apt and pip, each with its place."""
    named = (*layer.content.apt, *layer.content.python)
    yield from ((word, str(word.place)) for word in named if isinstance(word, Text))
    version = next((each for each in layer.settings if each.name == "version"), None)
    python = [each.sdist for each in sdists(layer.content.sources)]
    if version is not None:
        for name in (*python, *(each.package for each in layer.content.pip_installs)):
            yield f"{name}=={version.value}", version.place
    for file in requirement_files(layer.files) if layer.folder else ():
        for line in requirements.requirement_lines(file.content):
            yield line.text, f"{layer.folder}/{file.name}:{line.line}:{line.column}"
