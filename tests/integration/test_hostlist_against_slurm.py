"""10,000 generated host lists expand as Slurm's own command expands them."""

from collections.abc import Callable
from random import Random

import pytest

from lumicontainer.inside.launch.hostlist import HostlistError, expand

from ..programs import run

Slurm = Callable[[str], tuple[list[str], str]]
LISTS = 100
ITEMS = 100
"""The items of a list, joined by commas: one call of scontrol expands them all."""
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost
NodeName=n1 CPUs=1
PartitionName=p Nodes=n1 Default=YES
"""
NOTED = (
    *("nid[005001-008000]", "nid005001", "nid[005001-005002,005010],login1", "a[09-11]"),
    *("a[1-3],a2,,b,", " a\tb,c[1,3] ", "r[1-2]n[3-4]", "r[1-2][3-4]", "a[1-65536]"),
    *("[1-3]", "10.0.0.[1-2]", "a[1-2]b[3-4]c[5-6]", ""),
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Slurm:
    """Return the hosts that Slurm's own command prints, and what it complains about.

    It reads a configuration before it expands anything; no daemon is needed.
    """
    path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    path.write_text(CONFIGURATION)

    def show_hostnames(text: str) -> tuple[list[str], str]:
        done = run(["scontrol", "show", "hostnames", text], env={"SLURM_CONF": str(path)})
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr

    return show_hostnames


def item(source: Random) -> str:
    """Make up an item of a list: up to four brackets with padded and plain numbers and ranges."""
    text = source.choice(["nid", "a", "x-", "r0", "", "n.b", "10.0.0.", "node7-"])
    brackets = source.choice([0, 1, 1, 1, 1, 2, 2, 3, 4])
    for index in range(brackets):
        text += source.choice(["", "", "-", "b", "x0", "c1r", ".n"]) if index else ""
        text += f"[{','.join(numbers(source) for _ in range(source.randint(1, 3)))}]"
    return text if brackets else text + source.choice(["login", "1", "007", "z"])


def numbers(source: Random) -> str:
    low = source.randint(0, source.choice([9, 120, 5010]))
    width = source.choice([1, 1, 2, 3, 6])
    high = low + source.randint(0, 6)
    last = f"-{high:0{source.choice([1, width])}}" if source.random() < 0.6 else ""
    return f"{low:0{width}}{last}"


def test_lists_expand_as_slurm_expands_them(slurm: Slurm) -> None:
    source = Random(20260101)
    made = (",".join(item(source) for _ in range(ITEMS)) for _ in range(LISTS))
    for text in (*NOTED, *made):
        assert (expand(text), "") == slurm(text), text


@pytest.mark.parametrize(
    "text", ["a[]", "a[3-1]", "a[1,,2]", "a[-3]", "a[x-z]", "a[1 2]", "a[1-70000]"]
)
def test_what_slurm_refuses_is_refused(text: str, slurm: Slurm) -> None:
    hosts, complaint = slurm(text)
    assert not hosts
    assert complaint
    with pytest.raises(HostlistError):
        expand(text)
