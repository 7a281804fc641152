"""Write and read bills of materials as CycloneDX 1.6, in JSON.

The same bill makes the same bytes: the serial number is a hash of the components, and the time is
the one of all files of an image.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cyclonedx.contrib.license.exceptions import InvalidSpdxLicenseException
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component as Part
from cyclonedx.model.component import ComponentType
from cyclonedx.model.license import LicenseAcknowledgement
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from lumicontainer import __version__
from lumicontainer.constants import EPOCH
from lumicontainer.image import records
from lumicontainer.image.records import DIGEST, LINE, TEXT
from lumicontainer.trust.bill import DEB, PYPI, SOURCE, Bill, Component, bill_of

TIME = datetime.fromtimestamp(EPOCH, UTC)
_DECLARED = LicenseAcknowledgement.DECLARED
_KINDS = {f"pkg:{kind}/": kind for kind in (DEB, PYPI)}
_ROOT = "image"
_LICENCE: records.Schema = {"expression?": TEXT, "license?": {"id?": TEXT, "name?": TEXT}}
_COMPONENT: records.Schema = {
    "name": LINE,
    "version?": LINE,
    "purl?": LINE,
    "hashes?": [{"alg": LINE, "content": DIGEST}],
    "licenses?": [_LICENCE],
    "externalReferences?": [{"url": LINE, "type": LINE}],
}
SCHEMA: records.Schema = {
    "metadata?": {"component?": {"name": LINE, "version?": LINE}},
    "components?": [_COMPONENT],
}


def write_cyclonedx(bill: Bill) -> bytes:
    """Return a bill as CycloneDX 1.6."""
    parts = [_part(each) for each in bill.components]
    root = Part(name=bill.name, version=bill.version, type=ComponentType.CONTAINER, bom_ref=_ROOT)
    tool = Part(name="lumicontainer", version=__version__, type=ComponentType.APPLICATION)
    tool.bom_ref.value = "lumicontainer"
    metadata = BomMetaData(component=root, timestamp=TIME)
    metadata.tools.components.add(tool)
    bom = Bom(components=parts, metadata=metadata, serial_number=serial_number(bill))
    bom.register_dependency(root, parts)
    return f"{JsonV1Dot6(bom).output_as_string(indent=1)}\n".encode()


def serial_number(bill: Bill) -> UUID:
    """Return the UUID (version 8, RFC 9562) that names a bill by its content."""
    text = json.dumps([__version__, *bill], sort_keys=True)
    raw = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    raw[6] = 0x80 | raw[6] & 0x0F
    raw[8] = 0x80 | raw[8] & 0x3F
    return UUID(bytes=bytes(raw))


def _part(component: Component) -> Part:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=component.sha256)]
    of_git = component.purl.startswith("pkg:github/") or "vcs_url=" in component.purl
    kind = ExternalReferenceType.VCS if of_git else ExternalReferenceType.DISTRIBUTION
    reference = [ExternalReference(type=kind, url=XsUri(component.url))] if component.url else []
    is_file = component.kind == SOURCE and not of_git
    return Part(
        name=component.name,
        version=component.version or None,
        type=ComponentType.FILE if is_file else ComponentType.LIBRARY,
        purl=PackageURL.from_string(component.purl),
        bom_ref=component.purl,
        hashes=hashes if component.sha256 else (),
        licenses=[*_licences(component.licences)],
        external_references=reference,
    )


def _licences(names: Iterable[str]) -> Iterator[Any]:
    factory, several = LicenseFactory(), list(names)
    for each in several:
        if len(several) == 1:
            yield factory.make_from_string(each, license_acknowledgement=_DECLARED)
            continue
        # One expression stands alone; several licences are names or identifiers.
        try:
            yield factory.make_with_id(each, acknowledgement=_DECLARED)
        except InvalidSpdxLicenseException:
            yield factory.make_with_name(each, acknowledgement=_DECLARED)


def read_cyclonedx(content: bytes) -> Bill:
    """Return the bill of a document; raise ``RecordError`` if it is not CycloneDX."""
    data = records.parse(content, SCHEMA)
    about = (data.get("metadata") or {}).get("component") or {"name": _ROOT}
    rows = (_component(row) for row in data.get("components", ()) if row.get("purl"))
    return bill_of(about["name"], about.get("version", ""), rows)


def _component(row: Mapping[str, Any]) -> Component:
    purl = row["purl"]
    kind = next((kind for start, kind in _KINDS.items() if purl.startswith(start)), SOURCE)
    sha256 = (each["content"] for each in row.get("hashes", ()) if each["alg"] == "SHA-256")
    urls = (each["url"] for each in row.get("externalReferences", ()))
    return Component(
        kind,
        row["name"],
        row.get("version", ""),
        purl,
        next(sha256, ""),
        tuple(sorted(filter(None, map(_licence, row.get("licenses", ()))))),
        next(urls, ""),
    )


def _licence(row: Mapping[str, Any]) -> str:
    named = row.get("license") or {}
    return str(row.get("expression") or named.get("id") or named.get("name") or "")
