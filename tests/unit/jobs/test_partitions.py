"""Slurm's partitions are compared with the platform's."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.jobs.partitions import partition_differences

LUMI = open_catalog().platform("lumi-g").slurm.partitions
SHOWN = {
    "standard-g": ("2-00:00:00", "1024", "EXCLUSIVE"),
    "small-g": ("3-00:00:00", "4", "NO"),
    "dev-g": ("03:00:00", "32", "NO"),
    "standard": ("2-00:00:00", "512", "EXCLUSIVE"),
    "small": ("3-00:00:00", "4", "NO"),
    "debug": ("00:30:00", "4", "NO"),
}
KEYS = ("MaxTime", "MaxNodes", "OverSubscribe")


def compared(**changed: str) -> list[str]:
    rows = [
        {"PartitionName": name, **dict(zip(KEYS, values, strict=True))}
        for name, values in SHOWN.items()
    ]
    return [*partition_differences(LUMI, [{**rows[0], **changed}, *rows[1:]])]


def test_the_same_partitions_differ_in_nothing() -> None:
    assert compared() == []
    assert compared(MaxTime="UNLIMITED", MaxNodes="UNLIMITED", TotalNodes="7") == []


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("MaxTime", "1-12:00:00", "standard-g allows 1d12h, not 2d"),
        ("MaxNodes", "512", "standard-g allows 512 nodes a job, not 1024"),
        ("OverSubscribe", "NO", "standard-g shares nodes"),
        ("PartitionName", "other", "Slurm has no partition standard-g"),
    ],
)
def test_a_difference_is_named(key: str, value: str, words: str) -> None:
    assert compared(**{key: value}) == [words]
