"""Sets of processors are read and written as the kernel does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.node import cpulist


@given(st.frozensets(st.integers(0, cpulist.MOST - 1)))
def test_what_is_written_is_the_shortest_list_and_read_again(some: frozenset[int]) -> None:
    written = cpulist.written(some)
    assert cpulist.parse_cpus(written) == some
    assert len(list(filter(None, written.split(",")))) == sum(cpu - 1 not in some for cpu in some)


def test_runs_may_overlap_and_come_in_any_order() -> None:
    assert cpulist.parse_cpus("\t8-9,0-2,1-4,\n") == {0, 1, 2, 3, 4, 8, 9}


@pytest.mark.parametrize("text", ["x", "1-", "3-1", "-1", "0-999999999", "1;2", "0x7"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        cpulist.parse_cpus(text)
