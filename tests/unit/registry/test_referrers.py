"""The bill of materials of an image is listed beside what others attach to it."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from lumicontainer.registry.cutting import digest_of_bytes
from lumicontainer.registry.push import push_image
from lumicontainer.registry.referrers import attach_bill
from lumicontainer.system.terminal.progress import Progress

from .remote_images import remote
from .server import Registry, Reply

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_blobs")]
BILL = b'{"bomFormat": "CycloneDX"}'


def push_with_bill(image: Path, registry: Registry) -> str:
    with Progress("json") as progress:
        return push_image(image, remote(registry), progress, whole=False, bill=BILL).digest


def test_the_bill_of_materials_is_listed_where_clients_look(
    registry: Registry, image: Path
) -> None:
    digest = push_with_bill(image, registry)
    assert push_with_bill(image, registry) == digest
    index = json.loads(registry.manifests[digest.replace(":", "-")])
    (row,) = index["manifests"]
    referrer = json.loads(registry.manifests[row["digest"]])
    assert row["artifactType"] == referrer["artifactType"] == "application/vnd.cyclonedx+json"
    assert referrer["subject"]["digest"] == digest
    assert registry.blobs[referrer["layers"][0]["digest"]] == BILL


def test_a_registry_that_lists_referrers_itself_gets_no_index(
    registry: Registry, image: Path
) -> None:
    registry.lists_referrers = True
    digest = push_with_bill(image, registry)
    assert digest.replace(":", "-") not in registry.manifests


def rows_of(registry: Registry, subject: bytes) -> list[dict[str, str]]:
    """Return the rows of the index of referrers of a manifest."""
    index = json.loads(registry.manifests[digest_of_bytes(subject).replace(":", "-")])
    rows: list[dict[str, str]] = index["manifests"]
    return rows


def test_two_bills_that_are_attached_at_once_are_both_listed(registry: Registry) -> None:
    """Both find no index before one is written; both have written before one looks again."""
    subject, both, reads = b"{}", threading.Barrier(2, timeout=60), count()

    def meet(method: str, path: str) -> Reply | None:
        if method == "GET" and (number := next(reads)) < 4:
            both.wait()
            return Reply(404) if number < 2 else None
        return None

    registry.fault = meet
    with ThreadPoolExecutor(2) as pool:
        bills = (b'{"by": "one"}', b'{"by": "two"}')
        attached = [pool.submit(attach_bill, each, remote(registry), subject) for each in bills]
        for each in attached:
            each.result()
    assert len(rows_of(registry, subject)) == 2


def test_a_row_of_another_program_that_comes_before_ours_is_written_stays(
    registry: Registry,
) -> None:
    subject, other = b"{}", {"digest": "sha256:of-another-program"}
    tag = digest_of_bytes(subject).replace(":", "-")
    registry.knows_etags = True
    registry.manifests[tag] = b'{"manifests": []}'
    written = iter([json.dumps({"manifests": [other]}).encode()])

    def write_first(method: str, path: str) -> Reply | None:
        if method == "PUT" and path.endswith(tag):
            registry.manifests[tag] = next(written, registry.manifests[tag])
        return None

    registry.fault = write_first
    attach_bill(BILL, remote(registry), subject)
    rows = rows_of(registry, subject)
    assert len(rows) == 2
    assert rows[0] == other


def test_an_index_that_is_replaced_again_and_again_ends_the_push(
    registry: Registry, image: Path
) -> None:
    def replace(method: str, path: str) -> Reply | None:
        tags = [tag for tag in registry.manifests if tag.startswith("sha256-")]
        registry.manifests.update(dict.fromkeys(tags, b'{"manifests": []}'))
        return None

    registry.fault = replace
    with pytest.raises(ValueError, match="other programs replaced its list of referrers"):
        push_with_bill(image, registry)
