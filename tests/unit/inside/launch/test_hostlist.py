"""Host lists expand as Slurm's own command expands them."""

import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.inside.launch.hostlist import MAX_HOSTS, HostlistError, expand, first

from ....hostlists import ODD, USUAL


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("nid[005001-005003]", "nid005001 nid005002 nid005003"),
        ("nid005001", "nid005001"),
        ("nid[005001-005002,005010],login1", "nid005001 nid005002 nid005010 login1"),
        ("a[9-11]", "a9 a10 a11"),
        ("a[09-11]", "a09 a10 a11"),
        ("a[098-101]", "a098 a099 a100 a101"),
        ("a[1-3],a2", "a1 a2 a3 a2"),
        ("r[1-2]n[3-4]", "r1n3 r1n4 r2n3 r2n4"),
        ("r[1-2][3-4]", "r13 r14 r23 r24"),
        ("[1-3]", "1 2 3"),
        ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
        ("a,,b,", "a b"),
        ("a b[1-2]", "a b1 b2"),
        ("n[1-2].site", "n1.site n2.site"),
        ("r[1-2]n[3-4]-ib", "r1n3-ib r1n4-ib r2n3-ib r2n4-ib"),
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
        ("a[1-3", "not closed"),
        ("b,a[1,2", "not closed"),
        ("b a[1]c[2", "not closed"),
        ("a1-3]", "not opened"),
        ("a[1]]", "not opened"),
        ("b[1],a[1]c]", "not opened"),
        ("a[[1-2]]", "inside a bracket"),
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


_words = st.text("abcxyz.-", min_size=1, max_size=6)


@st.composite
def _brackets(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw the inside of a bracket, and the numbers that it stands for."""
    parts, numbers = [], []
    for _ in range(draw(st.integers(1, 3))):
        low = draw(st.integers(0, 20_000))
        high = low + draw(st.integers(0, 8))
        width = draw(st.integers(1, 7))
        single = low == high and draw(st.booleans())
        parts.append(f"{low:0{width}}" if single else f"{low:0{width}}-{high}")
        numbers += [str(value).rjust(width, "0") for value in range(low, high + 1)]
    return ",".join(parts), numbers


@st.composite
def _hosts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw an item of a list with up to two brackets, and the hosts that it names."""
    text = draw(_words)
    names = [text]
    for _ in range(draw(st.integers(0, 2))):
        inner, numbers = draw(_brackets())
        after = draw(st.just("") | _words)
        text += f"[{inner}]{after}"
        names = [name + number + after for name in names for number in numbers]
    return text, names


@given(st.lists(_hosts(), max_size=4))
def test_what_a_list_was_made_of_comes_back(items: list[tuple[str, list[str]]]) -> None:
    text = ",".join(item for item, _ in items)
    assert expand(text) == [name for _, names in items for name in names]


@given(st.text("ab019[],-\t ", max_size=40))
def test_any_text_is_expanded_or_refused_and_nothing_else(text: str) -> None:
    try:
        hosts = expand(text)
    except HostlistError as error:
        with pytest.raises(HostlistError) as caught:
            first(text)
        assert str(caught.value) == str(error)
        return
    assert not any(set(host) & set("[], \t") for host in hosts)
    assert first(text) == next(iter(hosts), "")


@given(st.lists(_hosts(), min_size=1, max_size=4))
def test_the_first_host_is_that_of_the_whole_list(items: list[tuple[str, list[str]]]) -> None:
    assert first(",".join(item for item, _ in items)) == items[0][1][0]


def test_the_first_host_is_found_without_making_the_others() -> None:
    tracemalloc.start()
    try:
        assert first("nid[000001-065000]n[1]") == "nid000001n1"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**16


@pytest.mark.parametrize("text", USUAL, ids=lambda text: text[:30])
def test_three_thousand_hosts_are_found_about_as_quickly_as_their_names_are_written(
    text: str,
) -> None:
    """Three times as long for the longest; in milliseconds the bench tells it."""

    def seconds(work: Callable[[], list[str]]) -> float:
        begun = time.process_time()
        assert len(work()) == 3000
        return time.process_time() - begun

    written = min(seconds(lambda: [f"nid{each:06d}" for each in range(3000)]) for _ in range(20))
    assert min(seconds(lambda: expand(text)) for _ in range(20)) <= 10 * written


@pytest.mark.parametrize("text", ODD, ids=lambda text: text[:30])
def test_an_odd_list_of_three_thousand_hosts_is_read_too(text: str) -> None:
    assert len(expand(text)) == 3000
