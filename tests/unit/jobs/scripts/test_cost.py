"""A job costs what the worked examples of LUMI's documents say."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.jobs.scripts.cost import Allocation, cost, hourly_cost

SLURM = open_catalog().platform("lumi-g").slurm
PARTITIONS = {each.name: each for each in SLURM.partitions}
GIB = 1 << 30


@pytest.mark.parametrize(
    ("partition", "allocation", "hours", "expected"),
    [
        # lumi-userguide, docs/runjobs/lumi_env/billing.md
        ("standard-g", Allocation(4, 32, 224, 4 * 480 * GIB), 24, "384 GPU-hours"),
        ("small-g", Allocation(1, 2, 14, 120 * GIB), 24, "24 GPU-hours"),
        ("small-g", Allocation(1, 1, 7, 128 * GIB), 24, "24 GPU-hours"),
        ("standard", Allocation(16, 0, 16, 16 * GIB), 12, "24,576 core-hours"),
        ("small", Allocation(1, 0, 32, 32 * GIB), 2, "64 core-hours"),
        ("small", Allocation(1, 0, 4, 4 * GIB), 24, "96 core-hours"),
        ("small", Allocation(1, 0, 4, 32 * GIB), 24, "384 core-hours"),
        # LUMI training materials, docs/2day-20260422/201-Slurm.md
        ("small-g", Allocation(1, 1, 16, 256 * GIB), 1, "2 GPU-hours"),
        ("small-g", Allocation(1, 1, 7, 60 * GIB), 1, "0.5 GPU-hours"),
        ("dev-g", Allocation(1, 1, 16, 60 * GIB), 1, "1 GPU-hour"),
        ("standard-g", Allocation(1, 1, 1, GIB), 1, "4 GPU-hours"),
        ("standard", Allocation(1, 0, 1, GIB), 1, "128 core-hours"),
        ("small", Allocation(1, 0, 1, 128 * GIB), 1, "64 core-hours"),
        ("small", Allocation(1, 0, 112, 224 * GIB), 1, "112 core-hours"),
    ],
)
def test_a_job_costs_what_the_documents_of_lumi_say(
    partition: str, allocation: Allocation, hours: int, expected: str
) -> None:
    assert str(cost(SLURM, PARTITIONS[partition], allocation, 60 * hours)) == expected


def test_a_partition_without_a_rule_has_no_cost() -> None:
    partition = PARTITIONS["small-g"]._replace(billing="")
    assert hourly_cost(SLURM, partition, Allocation(1, 1, 7, GIB)) is None


def test_the_shares_of_all_gpus_are_a_node() -> None:
    for each in SLURM.partitions:
        if each.gpus:
            assert each.gpus * SLURM.share.cores == each.cores
            assert each.gpus * SLURM.share.memory == each.memory
