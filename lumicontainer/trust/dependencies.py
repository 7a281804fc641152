"""Name what an image is made of as in-toto's resource descriptors: an address and a digest each.

With a lock all its pins are named, else the inputs of the recipe, some of which have no digest.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from packageurl import PackageURL

from lumicontainer.core.lock import Lock, read_lock
from lumicontainer.core.model.source import (
    APT,
    DEBOOTSTRAP,
    GIT,
    IMAGE,
    PYTHON,
    SDIST,
    URL,
)
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.inputs import inputs
from lumicontainer.core.yaml.validators import WHOLE_COMMIT
from lumicontainer.errors import Problems
from lumicontainer.trust.bill import SOURCE, Component, file_purl, git_purl, pypi_purl

Descriptor = Mapping[str, Any]
_SHA256 = re.compile(r"(?:^|sha256:)([0-9a-f]{64})$")
_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)==([^\s;]+)")
_SCHEMES = {IMAGE: "docker://", DEBOOTSTRAP: "urn:lumicontainer:debootstrap:", GIT: "git+"}


def dependencies_of(resolved: Resolved) -> list[Descriptor]:
    """Return everything that an image takes from elsewhere, in the order of its layers."""
    lock = _lock_of(resolved)
    rows = _locked(lock) if lock else _stated(resolved)
    return [row for row in rows if row]


def _lock_of(resolved: Resolved) -> Lock | None:
    return read_lock(resolved.lock, "lock", Problems()) if resolved.lock else None


def _locked(lock: Lock) -> Iterator[Descriptor]:
    for layer, entries in lock.layers.items():
        for each in entries:
            more = {"layer": layer, "index": each.index_url, "builds": each.builds}
            yield descriptor(each.kind, each.name, each.pin, each.where, more)


def _stated(resolved: Resolved) -> Iterator[Descriptor]:
    for each in inputs(resolved):
        more = {"layer": each.layer, "index": each.index_url}
        pin, base = each.stated, resolved.bootstrap
        if each.kind == IMAGE and base.file:
            pin = f"sha256:{base.sha256}"
        yield descriptor(each.kind, each.name, pin, each.where, more)


def descriptor(kind: str, name: str, pin: str, where: str, more: Mapping[str, str]) -> Descriptor:
    """Return the descriptor of an input: its address, its digest if a pin has one, and notes."""
    commit = {"commit": pin} if kind == GIT else {}
    notes = {key: value for key, value in {"kind": kind, **more, **commit}.items() if value}
    own_name = where if kind in (GIT, URL) else ""
    uri, digest = _address(kind, name, pin), _digest(kind, pin)
    row = {"name": own_name, "uri": uri, "digest": digest, "annotations": notes}
    return {key: value for key, value in row.items() if value}


def _address(kind: str, name: str, pin: str) -> str:
    if kind == APT:
        package, _, version = (pin or name).partition(" ")[0].partition("=")
        return str(PackageURL("deb", "debian", package, version or None).to_string())
    if kind in (PYTHON, SDIST):
        match = _PINNED.match(pin if kind == PYTHON and pin else name)
        return pypi_purl(*match.groups()) if match else f"pkg:pypi/{_bare(name)}"
    return f"{_SCHEMES.get(kind, '')}{name}"


def _digest(kind: str, pin: str) -> dict[str, str]:
    if kind == GIT:
        return {"gitCommit": pin} if len(pin) == WHOLE_COMMIT else {}
    match = _SHA256.search(pin)
    return {"sha256": match[1]} if match else {}


def _bare(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;@]", requirement.strip(), maxsplit=1)[0].lower()


def sources(rows: Iterable[Descriptor]) -> Iterator[Component]:
    """Yield the git repositories and the files among dependencies as components."""
    for row in rows:
        kind, digest = row["annotations"].get("kind"), row.get("digest", {})
        url, name = str(row["uri"]), str(row.get("name", ""))
        if kind == GIT:
            url = url.removeprefix("git+")
            commit = digest.get("gitCommit") or row["annotations"].get("commit", "")
            yield Component(SOURCE, name, commit, git_purl(url, commit), url=f"git+{url}@{commit}")
        elif kind == URL:
            sha256 = digest.get("sha256", "")
            yield Component(SOURCE, name, "", file_purl(name, url, sha256), sha256, url=url)


def hashes(rows: Iterable[Descriptor]) -> dict[str, str]:
    """Return the sha256 of the files that Python packages were installed from, by package URL."""
    return {
        row["uri"]: row["digest"]["sha256"]
        for row in rows
        if row["uri"].startswith("pkg:pypi/") and row.get("digest", {}).get("sha256")
    }
