"""10,000 generated host lists expand as Slurm's own command expands them."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from lumicontainer.inside.launch.hostlist import HostlistError, expand

LISTS = 10_000
AT_ONCE = 100
"""Lists that one call of scontrol expands, joined by commas, as a list of lists is a list."""

CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost
NodeName=n1 CPUs=1
PartitionName=p Nodes=n1 Default=YES
"""


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write what scontrol wants to read before it expands anything; no daemon is needed."""
    path = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    path.write_text(CONFIGURATION)
    return path


def show_hostnames(text: str, conf: Path) -> tuple[list[str], str]:
    """Return the hosts that Slurm's own command prints, and what it complains about."""
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        env={**os.environ, "SLURM_CONF": str(conf)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


def generate(source: random.Random) -> str:
    """Make up an item of a list: up to four brackets with padded and plain numbers and ranges."""
    brackets = source.choice([0, 1, 1, 1, 1, 2, 2, 3, 4])
    text = source.choice(["nid", "a", "x-", "r0", "", "n.b", "10.0.0.", "node7-"])
    for index in range(brackets):
        inner = ",".join(_range(source) for _ in range(source.randint(1, 3)))
        text += f"[{inner}]"
        if index < brackets - 1:
            text += source.choice(["", "-", "b", "x0", "c1r", ".n"])
    return text if brackets else text + source.choice(["login", "1", "007", "z"])


def _range(source: random.Random) -> str:
    low = source.randint(0, source.choice([9, 120, 5010]))
    width = source.choice([1, 1, 2, 3, 6])
    if source.random() < 0.4:
        return f"{low:0{width}}"
    high_width = source.choice([1, width])
    return f"{low:0{width}}-{low + source.randint(0, 6):0{high_width}}"


def test_generated_lists_expand_as_slurm_expands_them(slurm_conf: Path) -> None:
    source = random.Random(20260101)
    for _ in range(LISTS // AT_ONCE):
        text = ",".join(generate(source) for _ in range(AT_ONCE))
        assert (expand(text), "") == show_hostnames(text, slurm_conf), text


@pytest.mark.parametrize(
    "text",
    [
        *("nid[005001-008000]", "nid005001", "nid[005001-005002,005010],login1", "a[09-11]"),
        *("a[1-3],a2,,b,", " a\tb,c[1,3] ", "r[1-2]n[3-4]", "r[1-2][3-4]", "a[1-65536]"),
        *("[1-3]", "10.0.0.[1-2]", "a[1-2]b[3-4]c[5-6]", ""),
    ],
)
def test_a_list_of_note_expands_as_slurm_expands_it(text: str, slurm_conf: Path) -> None:
    assert (expand(text), "") == show_hostnames(text, slurm_conf)


@pytest.mark.parametrize(
    "text", ["a[]", "a[3-1]", "a[1,,2]", "a[-3]", "a[x-z]", "a[1 2]", "a[1-70000]"]
)
def test_what_slurm_refuses_is_refused(text: str, slurm_conf: Path) -> None:
    hosts, complaint = show_hostnames(text, slurm_conf)
    assert not hosts
    assert complaint
    with pytest.raises(HostlistError):
        expand(text)
