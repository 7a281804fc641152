"""Write bills of materials as SPDX 2.3, in JSON.

A document of SPDX is this short. ``spdx-tools`` would bring an RDF store and a parser generator
into each installation; tests read the documents with it.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from license_expression import (
    ExpressionError,
    ExpressionParseError,
    Licensing,
    get_spdx_licensing,
)

from lumicontainer import __version__
from lumicontainer.trust.bill import Bill, Component
from lumicontainer.trust.cyclonedx import TIME, serial_number

_DOCUMENT, _IMAGE = "SPDXRef-DOCUMENT", "SPDXRef-image"
_UNSAID, _OWN = "NOASSERTION", "LicenseRef-"
_licensing: Callable[[], Licensing] = functools.cache(get_spdx_licensing)


def write_spdx(bill: Bill) -> bytes:
    """Return a bill as SPDX 2.3."""
    licences = {each: _identifier(each) for part in bill.components for each in part.licences}
    image = _package(_IMAGE, bill.name, bill.version)
    parts = [_of(each, licences) for each in bill.components]
    others = {name: key for key, name in licences.items() if name.startswith(_OWN)}
    data = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT,
        "name": bill.name,
        "documentNamespace": f"urn:uuid:{serial_number(bill)}",
        "creationInfo": {
            "created": f"{TIME:%Y-%m-%dT%H:%M:%SZ}",
            "creators": [f"Tool: lumicontainer-{__version__}"],
        },
        "packages": [image, *parts],
        "hasExtractedLicensingInfos": [
            {"licenseId": name, "extractedText": others[name], "name": others[name]}
            for name in sorted(others)
        ],
        "relationships": [
            _relation(_DOCUMENT, "DESCRIBES", _IMAGE),
            *(_relation(_IMAGE, "CONTAINS", part["SPDXID"]) for part in parts),
        ],
    }
    return f"{json.dumps(data, indent=1, ensure_ascii=False)}\n".encode()


def _package(identifier: str, name: str, version: str, **more: Any) -> dict[str, Any]:
    row = {"SPDXID": identifier, "name": name, "versionInfo": version, "filesAnalyzed": False}
    unsaid = ("downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText")
    filled = {key: value for key, value in {**row, **more}.items() if value != ""}
    return {**dict.fromkeys(unsaid, _UNSAID), **filled}


def _of(component: Component, licences: dict[str, str]) -> dict[str, Any]:
    digest = hashlib.sha256(component.purl.encode()).hexdigest()[:16]
    purl = {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": component.purl,
    }
    checksums = [{"algorithm": "SHA256", "checksumValue": component.sha256}]
    more = {"checksums": checksums} if component.sha256 else {}
    return _package(
        f"SPDXRef-{digest}",
        component.name,
        component.version,
        downloadLocation=component.url or _UNSAID,
        licenseDeclared=_joined(licences[each] for each in component.licences),
        externalRefs=[purl],
        **more,
    )


def _joined(identifiers: Iterable[str]) -> str:
    names = list(dict.fromkeys(identifiers))
    grouped = (f"({each})" if " " in each and len(names) > 1 else each for each in names)
    return " AND ".join(grouped) or _UNSAID


def _identifier(licence: str) -> str:
    """Return a licence as an expression of SPDX; another name gets a separate reference."""
    try:
        return str(_licensing().parse(licence, validate=True, strict=True))
    except (ExpressionError, ExpressionParseError):
        return f"{_OWN}{hashlib.sha256(licence.encode()).hexdigest()[:12]}"


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
