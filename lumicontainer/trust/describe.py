"""Make the objects by which an image describes itself: provenance and bill of materials."""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.pylock import Package

from lumicontainer.core.plan.steps import Plan
from lumicontainer.image import sif
from lumicontainer.image.assembly.content import Files
from lumicontainer.image.digests import Part
from lumicontainer.image.squashfs import Describe
from lumicontainer.packages.pylock import read_pylock
from lumicontainer.trust.bill import Bill, bill_of, pypi_purl
from lumicontainer.trust.dependencies import Descriptor, hashes, sources
from lumicontainer.trust.installed import installed
from lumicontainer.trust.statement import (
    EXTEND,
    PackedLayer,
    Provenance,
    build_provenance,
    content,
    read_provenance,
    statement,
)


class ExtensionFacts(NamedTuple):
    """Hold what an extension adds to an image."""

    image: Path
    identity: str
    """The identity of the image."""
    command: str
    lock: str
    """The text of its lock (PEP 751)."""


def describe_build(plan: Plan, layers: Sequence[PackedLayer]) -> Describe:
    """Return the function that describes an image of ``layers`` that a plan made."""

    def describe(files: Files, parts: Sequence[Part]) -> Mapping[str, bytes]:
        return _objects(build_provenance(plan, layers, parts), files)

    return describe


def describe_extension(facts: ExtensionFacts, layer: PackedLayer) -> Describe:
    """Return the function that describes an image with an extension as its last layer."""
    base = read_provenance(facts.image)
    own = dict(base.parameters) if base else {}
    parameters = {**own, "image": facts.image.name}
    internal = {"command": facts.command, "rules": base.rule_rows if base else []}
    image = {
        "name": facts.image.name,
        "uri": "urn:lumicontainer:image",
        "digest": {"identity": facts.identity},
        "annotations": {"kind": "image"},
    }
    rows = [image, *(base.dependencies if base else ()), *_locked_packages(facts.lock)]
    layers = [*(base.layers if base else ()), layer]

    def describe(files: Files, parts: Sequence[Part]) -> Mapping[str, bytes]:
        made = statement(EXTEND, parameters, internal, rows, layers=layers, parts=parts)
        return _objects(made, files)

    return describe


def load_writer() -> None:
    """Import what writes bills of materials: it takes 0.4 s, and can be done beside other work."""
    importlib.import_module("lumicontainer.trust.cyclonedx")


def _objects(provenance: Provenance, files: Files) -> dict[str, bytes]:
    # It imports for 0.2 s, and most commands of a build describe nothing.
    from lumicontainer.trust.cyclonedx import write_cyclonedx  # noqa: PLC0415

    about = provenance.parameters
    name = str(about.get("recipe") or about.get("image"))
    version = str(about.get("profile") or about.get("platform") or "")
    bill = bill_of_files(name, version, files, provenance.dependencies)
    return {sif.BILL: write_cyclonedx(bill), sif.PROVENANCE: content(provenance)}


def bill_of_files(name: str, version: str, files: Files, rows: Iterable[Descriptor]) -> Bill:
    """Return the bill of an image with these files that was made of ``rows``."""
    listed = list(rows)
    known = hashes(listed)
    packages = (each._replace(sha256=known.get(each.purl, "")) for each in installed(files))
    return bill_of(name, version, [*packages, *sources(listed)])


def _locked_packages(text: str) -> Iterator[Descriptor]:
    for each in read_pylock(text).packages:
        sha256 = _sha256_of(each)
        purl = pypi_purl(each.name, str(each.version or ""))
        digest = {"digest": {"sha256": sha256}} if sha256 else {}
        yield {"uri": purl, **digest, "annotations": {"kind": "python", "layer": "extension"}}


def _sha256_of(package: Package) -> str:
    """Return the sha256 of the one file that a package is installed from, if it has one."""
    files = [*(package.wheels or ()), package.archive, package.sdist]
    hashed = (each.hashes.get("sha256", "") for each in files if each)
    return next(filter(None, hashed), "")
