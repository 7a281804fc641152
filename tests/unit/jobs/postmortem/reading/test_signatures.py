"""Each message of a dying program is known by its signature, and by no earlier one."""

from pathlib import Path

import pytest
import yaml

from lumicontainer.jobs.postmortem.reading.signatures import (
    NOTE,
    Signature,
    matches,
    numbers,
    signatures,
)

from ....cpu import within

SAMPLES = yaml.safe_load(Path(__file__).with_name("samples.yaml").read_text())
HINTLESS = {"timeout", "closed", NOTE}
"""Kinds of ranks that wait for others: the hint is that of the cause."""
SIZE = 200_000


@pytest.mark.parametrize("signature", signatures(), ids=lambda each: each.id)
def test_a_sample_is_known_by_its_signature_first(signature: Signature) -> None:
    first = min(matches(SAMPLES[signature.id]), key=lambda match: match.signature.order)
    assert first.signature.id == signature.id


def test_each_sample_has_a_signature() -> None:
    assert set(SAMPLES) == {each.id for each in signatures()}
    assert len(SAMPLES) >= 45


@pytest.mark.parametrize("signature", signatures(), ids=lambda each: each.id)
def test_a_signature_says_why_with_its_source_and_what_to_do(signature: Signature) -> None:
    assert signature.cause
    assert signature.source
    assert signature.hint or signature.kind in HINTLESS


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "1", "error: ", "Connection closed by peer [", "[1, 1", "rank 1", "File <a", "\n"],
)
def test_text_that_is_made_to_take_for_ever_is_read_in_linear_time(unit: str) -> None:
    with within(20):
        assert len(list(matches(unit * (SIZE // len(unit))))) < 1000


def test_ranks_in_ranges_are_counted_up_to_a_limit() -> None:
    assert numbers("0,2-4") == (0, 2, 3, 4)
    assert len(numbers("0-9999999")) == 100_000
    assert numbers("9-1") == ()
