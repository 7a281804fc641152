"""The report says first what failed, and can be read on a narrow screen."""

import itertools
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from lumicontainer.inside.verify.outcome import PASSED, SKIPPED
from lumicontainer.verify.html import page, verdict

from ...reports import LONG, RESULTS, result, row

NARROW = 380
"""Pixels that a page of 420 has between its margins."""
VOID = ("meta", "br", "line", "circle", "polyline")


class Tree(HTMLParser):
    """Collect the elements of a page, each with those around it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.around: list[tuple[str, dict[str, Any]]] = []
        self.elements: list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any]]]]] = []
        self.feed(text)
        assert self.around == [], "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), list(self.around)))
        if tag not in VOID:
            self.around.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.around.pop()[0] == tag


def text_of(name: str) -> str:
    return page(RESULTS[name]).decode()


@pytest.mark.parametrize("name", RESULTS)
def test_nothing_is_wider_than_a_narrow_screen_but_what_scrolls_by_itself(name: str) -> None:
    text = text_of(name)
    for tag, attributes, around in Tree(text).elements:
        assert attributes.get("width", "device-width") == "device-width"
        assert tag != "table" or around[-1][1].get("class") == "wide"
    for number, unit in re.findall(r"(?<!max-)\bwidth: ?([\d.]+)(px|rem|ch)", text):
        assert float(number) * {"px": 1, "rem": 16, "ch": 8}[unit] <= NARROW
    assert ".wide { overflow-x: auto; }" in text
    assert "overflow-wrap: anywhere" in text


@pytest.mark.parametrize("name", RESULTS)
def test_headings_are_in_order_and_tables_name_their_columns_and_rows(name: str) -> None:
    tree = Tree(text_of(name))
    levels = [int(tag[1]) for tag, _, _ in tree.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for tag, attributes, around in tree.elements:
        if tag == "th":
            assert attributes["scope"] == ("col" if ("thead", {}) in around else "row")
        if tag == "svg":
            assert attributes.get("aria-label") or attributes["aria-hidden"] == "true"


def test_a_report_names_the_bytes_of_the_image_and_the_engine() -> None:
    text = text_of("all passed")
    assert "5" * 64 in text
    assert "apptainer version 1.4.5" in text


def test_what_failed_comes_first_with_its_reason_its_hint_and_its_command() -> None:
    text = text_of("one failed")
    order = ("Failed (1)", "it is not there", "build it again", "-k a/failed")
    places = [text.index(words) for words in (*order, "Not proven (1)", "Passed (1)")]
    assert places == sorted(places)
    assert text.count(f"{LONG}\n") >= 20, "the end of what it printed is there"


def test_what_was_skipped_stands_below_its_reason_and_is_not_counted_as_passed() -> None:
    rows = [row(f"a/{name}", SKIPPED, "no GPU here") for name in "bcd"]
    text = page(result(row("a/a"), *rows)).decode()
    assert text.count("no GPU here") == 1
    assert "Not proven (3)" in text
    assert "Passed (1)" in text
    assert "1 of 4 checks passed, 3 not proven" in text


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((3, 0, 0, 0), "All 3 checks passed"),
        ((1, 0, 0, 0), "The check passed"),
        ((0, 2, 0, 0), "Nothing was proven"),
        ((0, 0, 0, 0), "Nothing was proven"),
        ((5, 1, 1, 0), "1 of 7 checks failed"),
        ((5, 1, 1, 1), "2 of 8 checks failed"),
    ],
)
def test_the_verdict_is_a_sentence(counts: tuple[int, ...], words: str) -> None:
    states = ("passed", "skipped", "failed", "error")
    assert verdict(dict(zip(states, counts, strict=True))) == words


def test_measured_values_are_shown_if_there_are_any_and_with_their_limits() -> None:
    assert 'id="measured"' not in text_of("all passed")
    text = text_of("pictures")
    assert "at least 100 GB/s" in text
    assert "reference 125 GB/s, of which 72 %" in text
    assert "Not judged: it was measured on gfx90a" in text


def test_of_many_ranks_the_one_that_failed_is_the_first() -> None:
    ranks = re.findall(r'<tr><th scope="row">(\d+)</th>', text_of("many ranks"))
    assert ranks[0] == "63"
    assert len(ranks) == 64


def test_an_outcome_is_reported_by_a_word_and_never_by_a_colour_alone() -> None:
    text = text_of("one failed")
    for state in re.findall(r'<span class="state (\w+)">', text):
        assert f"</span> {state}</span>" in text
    assert PASSED in text
