"""A request to verify an image says which command repeats its checks."""

from pathlib import Path

import pytest

from lumicontainer.api import SlurmJob
from lumicontainer.api.verifying import VerifyRequest


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (None, []),
        (SlurmJob(4), ["--nodes", "4"]),
        (SlurmJob(1), ["--nodes", "1"]),
        (SlurmJob(1, "small"), ["--partition", "small"]),
        (SlurmJob(2, "small", "p1"), ["--nodes", "2", "--partition", "small", "--account", "p1"]),
    ],
)
def test_a_check_is_repeated_in_the_same_job(job: SlurmJob | None, words: list[str]) -> None:
    assert VerifyRequest(Path("x.sif"), job=job).options() == words


def test_a_check_is_repeated_with_what_decides_its_outcome() -> None:
    request = VerifyRequest(
        Path("x.sif"), level="full", platform="lumi-g", recipe="./mine.yaml", required="gpu"
    )
    expected = ["--platform", "lumi-g", "--recipe", "./mine.yaml", "--require", "gpu"]
    assert request.options() == expected
