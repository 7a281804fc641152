"""The bill of materials and the provenance of an image."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.errors import InputError, Problem
from lumicontainer.image import inspect as images
from lumicontainer.image import records, sif
from lumicontainer.trust.bill import Bill
from lumicontainer.trust.cyclonedx import read_cyclonedx, write_cyclonedx
from lumicontainer.trust.describe import bill_of_files
from lumicontainer.trust.installed import open_files
from lumicontainer.trust.spdx import write_spdx
from lumicontainer.trust.statement import Provenance, read_provenance

CYCLONEDX, SPDX = "cyclonedx", "spdx"


@dataclass(frozen=True)
class BillRequest:
    """Name an image, and the format of its bill of materials."""

    image: Path
    format: str = CYCLONEDX
    """``cyclonedx`` (1.6) or ``spdx`` (2.3)."""


def bill_of_materials(
    request: BillRequest, on_problem: Callable[[Problem], None] = lambda _: None
) -> bytes:
    """Return the bill of an image as JSON; it is made from the image's files if it has none.

    Raises ``InputError`` if the file is not an image, or if its bill is damaged.
    """
    image = request.image
    content = images.object_bytes(image, sif.BILL)
    if content is None:
        why = "another program or an older lumicontainer built it"
        hint = "build it again for a bill that names its git repositories and downloaded files too"
        what = "the image has no bill of materials: it is made from the lists of its packages"
        on_problem(Problem(what, str(image), why, hint, "warning"))
        content = write_cyclonedx(_read_bill(image))
    try:
        bill = read_cyclonedx(content)
        return content if request.format == CYCLONEDX else write_spdx(bill)
    except records.RecordError as error:
        hint = "lumicontainer inspect --check finds changed bytes; rebuild the image"
        what, where = "the bill of materials of the image is damaged", f"{image}: {sif.BILL}"
        raise InputError(Problem(what, where, str(error), hint)) from error


def _read_bill(image: Path) -> Bill:
    name, version = image.stem, ""
    if records.is_recorded(image):
        record = records.resolved(image)
        name, version = record["recipe"], record.get("profile") or record["platform"]["name"]
    return bill_of_files(name, version, open_files(image), ())


def require_provenance(image: Path) -> Provenance:
    """Return the provenance of an image; raise ``InputError`` if it has none."""
    statement = read_provenance(image)
    if statement is None:
        why = "another program or an older lumicontainer built it"
        hint = "build it again with lumicontainer build"
        raise InputError(Problem("the image has no provenance", str(image), why, hint))
    return statement
