"""Compare the partitions that a platform describes with this host's Slurm."""

from collections.abc import Iterator, Mapping, Sequence

from lumicontainer.core.model import Partition
from lumicontainer.jobs.scripts.times import minutes_of, time_words

_UNLIMITED = ("UNLIMITED", "INFINITE")


def partition_differences(
    partitions: Sequence[Partition], shown: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """Yield how partitions differ from the lines of ``scontrol show partition``.

    Numbers of nodes change with repairs, so these are not compared.
    """
    by_name = {each.get("PartitionName", ""): each for each in shown}
    for each in partitions:
        if fields := by_name.get(each.name):
            yield from _differing(each, fields)
        else:
            yield f"Slurm has no partition {each.name}"


def _differing(partition: Partition, fields: Mapping[str, str]) -> Iterator[str]:
    longest = fields.get("MaxTime", "")
    if _is_limit(longest) and minutes_of(longest) != partition.max_time:
        allowed = time_words(minutes_of(longest))
        yield f"{partition.name} allows {allowed}, not {time_words(partition.max_time)}"
    most = fields.get("MaxNodes", "")
    if _is_limit(most) and int(most) != partition.max_nodes:
        yield f"{partition.name} allows {most} nodes a job, not {partition.max_nodes}"
    exclusive = fields.get("OverSubscribe") == "EXCLUSIVE"
    if "OverSubscribe" in fields and exclusive != partition.exclusive:
        yield f"{partition.name} {'gives whole' if exclusive else 'shares'} nodes"


def _is_limit(text: str) -> bool:
    return bool(text) and text not in _UNLIMITED
