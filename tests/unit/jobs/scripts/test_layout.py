"""A layout follows the partitions of the platform, or all that is wrong is reported."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import Problem
from lumicontainer.jobs.scripts.layout import Demand, NodeLayout, lay_out

LUMI = open_catalog().platform("lumi-g")
PARTITIONS = {each.name: each for each in LUMI.slurm.partitions}
GIB, DAY = 1 << 30, 1440


def shape(demand: Demand) -> tuple[object, ...]:
    problems = list[Problem]()
    layout = lay_out(LUMI, demand, problems)
    assert not problems
    assert layout.partition
    return (layout.partition.name, *layout[1:5], (layout.memory or 0) // GIB, layout.whole)


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        (Demand(), ("standard-g", 1, 8, 8, 0, 480, True)),
        (Demand(nodes=4), ("standard-g", 4, 8, 8, 0, 480, True)),
        (Demand(gpus=16), ("standard-g", 2, 8, 8, 0, 480, True)),
        (Demand(gpus=1), ("small-g", 1, 1, 1, 7, 60, False)),
        (Demand(gpus=6), ("small-g", 1, 6, 6, 7, 360, False)),
        (Demand(nodes=2, gpus=8), ("small-g", 2, 4, 4, 7, 240, False)),
        (Demand(gpus=4, one_task=True), ("small-g", 1, 1, 4, 28, 240, False)),
        (Demand(nodes=2, one_task=True), ("standard-g", 2, 1, 8, 0, 480, True)),
        (Demand(gpus=1, memory=256 * GIB), ("small-g", 1, 1, 1, 7, 256, False)),
        (Demand(nodes=2, minutes=3 * DAY), ("small-g", 2, 8, 8, 0, 480, True)),
        (Demand(gpus=1, partition="standard-g"), ("standard-g", 1, 1, 1, 0, 480, True)),
        (Demand(gpus=2, partition="dev-g"), ("dev-g", 1, 2, 2, 7, 120, False)),
        (Demand(partition="standard", tasks=4), ("standard", 1, 4, 0, 32, 224, True)),
    ],
)
def test_the_partition_and_the_shares_follow_from_the_gpus(
    demand: Demand, expected: tuple[object, ...]
) -> None:
    assert shape(demand) == expected


def test_a_platform_that_says_nothing_of_its_slurm_leaves_it_to_slurm() -> None:
    problems = list[Problem]()
    layout = lay_out(open_catalog().platform("workstation"), Demand(nodes=3), problems)
    assert layout == NodeLayout(None, 3, 2, 0, 0, None, whole=False)
    bare = LUMI._replace(slurm=open_catalog().platform("workstation").slurm)
    assert lay_out(bare, Demand(), problems) == NodeLayout(None, 1, 8, 8, 0, 0, whole=True)
    assert lay_out(bare, Demand(gpus=2), problems).memory is None
    assert not problems


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (Demand(partition="small_g"), ["'small_g' not found", "did you mean 'small-g'?"]),
        (Demand(gpus=17), ["3 nodes cannot share 17 GPUs evenly", "--gpus 16"]),
        (Demand(nodes=1, gpus=16), ["1 node of 8 GPUs cannot give 16"]),
        (Demand(gpus=1, partition="standard"), ["the partition has no GPUs"]),
        (Demand(tasks=16), ["16 tasks per node share 8 GPUs", "--ntasks-per-node 8"]),
        (Demand(nodes=1025), ["standard-g runs jobs of 1024 nodes at most", "--nodes 1024"]),
        (
            Demand(minutes=DAY // 2, partition="dev-g"),
            ["dev-g runs jobs for 3h at most, not for 12h", "--partition standard-g"],
        ),
        (Demand(minutes=9 * DAY), ["standard-g runs jobs for 2d at most, not for 9d"]),
        (Demand(gpus=1, memory=900 * GIB), ["480G of memory for jobs, not 900G", "--mem 480G"]),
        (Demand(jobs=1000), ["standard-g queues 210 jobs of a user, not 1000"]),
    ],
)
def test_what_cannot_run_is_refused_with_what_can(demand: Demand, words: list[str]) -> None:
    problems = list[Problem]()
    lay_out(LUMI, demand, problems)
    printed = "\n".join(map(str, problems))
    assert [word for word in words if word not in printed] == [], printed


def test_all_that_is_wrong_is_reported_at_once() -> None:
    problems = list[Problem]()
    demand = Demand(nodes=9, minutes=9 * DAY, memory=999 * GIB, jobs=999, partition="small-g")
    lay_out(LUMI, demand, problems)
    assert [each.where for each in problems] == ["--nodes", "--time", "--mem", "--array"]


def test_no_layout_exceeds_a_node() -> None:
    for gpus in range(1, 9):
        layout = lay_out(LUMI, Demand(gpus=gpus), [])
        assert layout.partition
        assert layout.gpus * layout.nodes == gpus
        assert layout.cores * layout.tasks <= layout.partition.cores
        assert (layout.memory or 0) <= layout.partition.memory
