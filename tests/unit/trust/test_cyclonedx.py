"""A bill is valid CycloneDX 1.6 and SPDX 2.3, the same bytes each time, and is read again."""

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lumicontainer.image.records import RecordError
from lumicontainer.trust import bill
from lumicontainer.trust.bill import DEB, PYPI, SOURCE, Component, bill_of
from lumicontainer.trust.cyclonedx import read_cyclonedx, write_cyclonedx
from lumicontainer.trust.spdx import write_spdx

RELEASE = {"ID": "debian", "VERSION_ID": "12"}
COMMIT, HASH = "ab" * 20, "cd" * 32
BILL = bill_of(
    "first",
    "rocm-6.4.4",
    [
        Component(
            DEB,
            "libstdc++6",
            "12.2.0-14",
            bill.deb_purl("libstdc++6", "12.2.0-14", RELEASE, arch="amd64", upstream="gcc-12"),
            licences=("Artistic", "GPL-3+ with GCC exception", "MIT"),
        ),
        Component(
            PYPI, "numpy", "2.4.6", bill.pypi_purl("numpy", "2.4.6"), HASH, ("BSD-3-Clause",)
        ),
        Component(PYPI, "odd", "1", bill.pypi_purl("odd", "1"), licences=("my own ; licence/(",)),
        Component(PYPI, "two", "1", bill.pypi_purl("two", "1"), licences=("MIT OR Apache-2.0",)),
        Component(
            SOURCE,
            "rccl",
            COMMIT,
            bill.git_purl("https://github.com/ROCm/rccl.git", COMMIT),
            url=f"git+https://github.com/ROCm/rccl.git@{COMMIT}",
        ),
        Component(
            SOURCE,
            "x.tar.gz",
            "",
            bill.file_purl("x.tar.gz", "https://example.org/x.tar.gz", HASH),
            HASH,
            url="https://example.org/x.tar.gz",
        ),
    ],
)


def test_the_document_is_valid_and_always_the_same() -> None:
    content = write_cyclonedx(BILL)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode()) is None
    assert write_cyclonedx(BILL) == content
    data = json.loads(content)
    assert (data["specVersion"], data["metadata"]["component"]["version"]) == ("1.6", "rocm-6.4.4")


def test_what_is_written_is_read_again() -> None:
    assert read_cyclonedx(write_cyclonedx(BILL)) == BILL


def test_another_bill_has_another_serial_number() -> None:
    other = bill_of("first", "rocm-7.0.2", BILL.components)
    serials = {json.loads(write_cyclonedx(each))["serialNumber"] for each in (BILL, other)}
    assert len(serials) == 2


def test_spdx_tools_finds_no_fault_in_the_document_of_spdx(tmp_path: Path) -> None:
    from spdx_tools.spdx.parser.parse_anything import parse_file  # noqa: PLC0415 - 1 s
    from spdx_tools.spdx.validation.document_validator import (  # noqa: PLC0415
        validate_full_spdx_document,
    )

    path = tmp_path / "x.spdx.json"
    path.write_bytes(write_spdx(BILL))
    document = parse_file(str(path))
    assert validate_full_spdx_document(document) == []
    purls = {ref.locator for each in document.packages for ref in each.external_references}
    assert purls == {each.purl for each in BILL.components}
    declared = {each.name: str(each.license_declared) for each in document.packages}
    assert declared["numpy"] == "BSD-3-Clause"
    assert declared["odd"].startswith("LicenseRef-")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"components": 1}', b'{"components": [{"name": 1}]}']
)
def test_another_document_is_refused(content: bytes) -> None:
    with pytest.raises(RecordError):
        read_cyclonedx(content)


def test_package_urls_name_the_repository_and_the_commit() -> None:
    assert bill.git_purl("https://github.com/ROCm/rccl", COMMIT) == f"pkg:github/rocm/rccl@{COMMIT}"
    other = bill.git_purl("https://example.org/a/b.git", COMMIT)
    assert other == f"pkg:generic/b@{COMMIT}?vcs_url=git%2Bhttps://example.org/a/b.git"
