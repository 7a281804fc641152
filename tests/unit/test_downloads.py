"""A download that is cut off begins again; one that is refused does not."""

import hashlib

import pytest

from lumicontainer.pinning.sources import sha256_of
from lumicontainer.system.process import ProgramError

from .test_fetch import UPSTREAM
from .test_registry import CUT, MANIFEST, Answer, answering


@pytest.mark.parametrize(
    "trouble", [pytest.param(Answer(0), id="closed"), pytest.param(CUT, id="truncated")]
)
def test_a_connection_that_is_cut_costs_no_download(trouble: Answer) -> None:
    seen: list[str] = []
    with answering((trouble, Answer()), seen) as host:
        found = sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert (found, seen) == (hashlib.sha256(MANIFEST).hexdigest(), ["/x", "/x"])


def test_a_refused_download_is_asked_for_once() -> None:
    seen: list[str] = []
    with answering((Answer(404),), seen) as host, pytest.raises(ProgramError, match=r"curl.* 404"):
        sha256_of(f"{UPSTREAM}x", {UPSTREAM: f"http://{host}/"})
    assert seen == ["/x"]
