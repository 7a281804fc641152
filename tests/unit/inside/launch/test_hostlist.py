"""Host lists are expanded; tests/integration compares many with Slurm's own command."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.launch.hostlist import MAX_HOSTS, HostlistError, expand


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("nid[005001-005002,005010],login1", "nid005001 nid005002 nid005010 login1"),
        ("a[098-101]", "a098 a099 a100 a101"),
        ("a[1-3],a2", "a1 a2 a3 a2"),
        ("r[1-2]n[3-4]", "r1n3 r1n4 r2n3 r2n4"),
        ("a b[1-2]", "a b1 b2"),
        ("n[1-2].site", "n1.site n2.site"),
        ("", ""),
    ],
)
def test_a_list_names_these_hosts(text: str, hosts: str) -> None:
    assert expand(text) == hosts.split()


def test_of_three_brackets_the_last_varies_fastest_and_the_middle_one_slowest() -> None:
    expected = "a1b3c5 a1b3c6 a2b3c5 a2b3c6 a1b4c5 a1b4c6 a2b4c5 a2b4c6"
    assert expand("a[1-2]b[3-4]c[5-6]") == expected.split()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a[1-3", "needs a"),
        ("a1-3]", "needs a"),
        ("a[[1-2]]", "cannot be nested"),
        ("a[]", "'' is neither a number"),
        ("a[1,,2]", "'' is neither a number"),
        ("a[1-]", "'1-' is neither a number nor a range"),
        ("a[-3]", "'-3' is neither"),
        ("a[1--3]", "'1--3' is neither"),
        ("a[x-z]", "'x-z' is neither"),
        ("a[²]", "is neither"),
        ("a[3-1]", "'3-1' runs backwards"),
    ],
)
def test_a_malformed_list_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(HostlistError, match="cannot read 'a") as caught:
        expand(text)
    assert why in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a[1-65537]",
        "a[1-65536],b[1]",
        "a[0-999999999999999999]",
        "a[1-300][1-300]",
        "a" + "[1-65536]" * 10_000,
        "a[" + ",".join(["1-60000"] * 10_000) + "]",
        ",".join(["a[1-60000]"] * 10_000),
        "a[" + "0" * 200 + "1-60000]" + "b" * 200,
        "a[" + "1" * 100_000 + "]",
    ],
)
def test_a_list_made_to_fill_the_memory_is_refused_before_it_does(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(HostlistError):
            expand(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


def test_as_many_hosts_as_slurm_can_have_are_expanded() -> None:
    assert len(expand(f"a[1-{MAX_HOSTS}]")) == MAX_HOSTS


@given(st.text("ab019[],-\t ", max_size=40))
def test_any_text_is_expanded_or_refused_and_nothing_else(text: str) -> None:
    try:
        hosts = expand(text)
    except HostlistError:
        return
    assert not any(set(host) & set("[], \t") for host in hosts)
