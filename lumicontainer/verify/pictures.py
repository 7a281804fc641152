"""Compute the pictures of a report from the facts that checks reported.

The template draws them. Facts of an unknown form make no picture.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from lumicontainer.system import units

WIDTH, HEIGHT = 600, 360
"""The size of a chart in its own units: small, so that a telephone shows readable letters."""
LEFT, RIGHT, TOP, BOTTOM = 50, 30, 34, 54
"""The margins of a chart, for its scales."""
_TICKS = 8
"""The most marks on a scale."""
_SIZES = 6
"""The most message sizes below a chart."""


class Tick(NamedTuple):
    """A mark on a scale: its position and its label."""

    at: float
    text: str


class Line(NamedTuple):
    """Hold one measured line: its points in the drawing, each with its label."""

    name: str
    points: tuple[tuple[float, float, str], ...]


class Chart(NamedTuple):
    """Hold a picture of values over message sizes."""

    title: str
    unit: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[Line, ...]
    references: tuple[Tick, ...]
    sources: tuple[str, ...]


def charts(facts: Mapping[str, Any]) -> Iterator[Chart]:
    """Yield the pictures of the bandwidths that a check reported."""
    for each in _rows(facts.get("bandwidth")):
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            yield _chart(each)


def _rows(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of a value that is one, or a list of them."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, Mapping):
            yield each


def _chart(data: Mapping[str, Any]) -> Chart:
    series = [(str(row["name"]), _points(row["points"])) for row in _rows(data["series"])]
    references = [
        (float(row["value"]), str(row.get("name", "")), str(row.get("source", "")))
        for row in _rows(data.get("references", []))
    ]
    sizes = [x for _, points in series for x, _ in points]
    highest = max([y for _, points in series for _, y in points] + [row[0] for row in references])
    scale, marks = _scale(highest)
    low, high = math.log2(min(sizes)), math.log2(max(sizes))
    unit = str(data.get("unit", "GB/s"))

    def across(size: float) -> float:
        share = (math.log2(size) - low) / (high - low) if high > low else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - value / scale * (HEIGHT - TOP - BOTTOM)

    def drawn(points: list[tuple[float, float]]) -> Iterator[tuple[float, float, str]]:
        for x, y in points:
            yield across(x), up(y), f"{units.size(int(x))}: {y:.4g} {unit}"

    return Chart(
        title=str(data.get("title", "bandwidth")),
        unit=unit,
        across=tuple(
            Tick(across(size), units.size(size).replace(".0 ", " ")) for size in _sizes(low, high)
        ),
        up=tuple(Tick(up(mark), f"{mark:g}") for mark in marks),
        lines=tuple(Line(name, tuple(drawn(points))) for name, points in series),
        references=tuple(Tick(up(value), f"{name} {value:g}") for value, name, _ in references),
        sources=tuple(dict.fromkeys(source for *_, source in references if source)),
    )


def _points(rows: Iterable[Any]) -> list[tuple[float, float]]:
    points = sorted((float(size), float(value)) for size, value in rows)
    if not points or points[0][0] <= 0:
        raise ValueError("a message size must be above 0")
    return points


def _scale(highest: float) -> tuple[float, list[float]]:
    """Return the top of a scale that includes ``highest``, and its marks in steps of 1, 2 or 5."""
    if not highest > 0 or math.isinf(highest):
        raise ValueError("nothing was measured")
    power = 10.0 ** math.floor(math.log10(highest / _TICKS))
    step = next(power * each for each in (1, 2, 5, 10) if highest / (power * each) <= _TICKS)
    count = math.ceil(highest / step)
    return step * count, [step * number for number in range(count + 1)]


def _sizes(low: float, high: float) -> list[int]:
    """Return the powers of two to mark between two exponents."""
    first, last = math.ceil(low), math.floor(high)
    every = max(1, math.ceil((last - first + 1) / _SIZES))
    return [2**power for power in range(first, last + 1, every)]


def nodes(facts: Mapping[str, Any]) -> list[tuple[str, list[tuple[int, list[str]]]]]:
    """Return each node with its ranks: the colour of a rank, and lines about its place."""
    ranks: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(_rows(facts.get("ranks")), key=lambda row: str(row.get("rank", "")).zfill(8)):
        ranks.setdefault(str(row.get("host", "")), []).append(row)
    return [(name, _boxes(rows)) for name, rows in ranks.items()]


def _boxes(rows: list[Mapping[str, Any]]) -> list[tuple[int, list[str]]]:
    domains = [str(row.get("numa", "")) for row in rows]
    tones = list(dict.fromkeys(domains))
    return [
        (tones.index(domain), list(_box_lines(row)))
        for row, domain in zip(rows, domains, strict=True)
    ]


_LABELS = (
    ("rank {}", ("rank",)),
    ("GCD {} {}", ("gcd", "pci")),
    ("CCD {} cores {}", ("ccd", "cores")),
    ("NUMA node {}", ("numa",)),
    ("NIC {}", ("nic",)),
)


def _box_lines(row: Mapping[str, Any]) -> Iterator[str]:
    for form, keys in _LABELS:
        values = [row.get(key) for key in keys]
        if any(value not in (None, "") for value in values):
            yield form.format(*("?" if value in (None, "") else value for value in values))
