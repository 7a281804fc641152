"""Sets of processors are read and written as the kernel does."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.node import cpulist

SETS = st.frozensets(st.integers(0, cpulist.MOST - 1))


@given(SETS)
def test_what_is_written_is_read_again(some: frozenset[int]) -> None:
    assert cpulist.parse_cpus(cpulist.written(some)) == some


@given(SETS)
def test_a_list_is_the_shortest_there_is(some: frozenset[int]) -> None:
    runs = [part for part in cpulist.written(some).split(",") if part]
    assert len(runs) == sum(cpu - 1 not in some for cpu in some)


def test_runs_may_overlap_and_come_in_any_order() -> None:
    assert cpulist.parse_cpus("8-9,0-2,1-4,") == {0, 1, 2, 3, 4, 8, 9}


def test_the_kernel_s_own_list_is_read() -> None:
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("Cpus_allowed_list:"))
    assert cpulist.parse_cpus(line.partition(":")[2]) == os.sched_getaffinity(0)


@pytest.mark.parametrize("text", ["x", "1-", "3-1", "-1", "0-999999999", "1;2", "0x7"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        cpulist.parse_cpus(text)
