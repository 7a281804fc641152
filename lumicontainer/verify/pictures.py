"""What a report shows as pictures: the shapes of each, computed from what checks told.

The template draws them; nothing here knows of HTML. What a check told in a form that is not known
makes no picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from lumicontainer.system import units

WIDTH, HEIGHT = 600, 360
"""Units of a chart's drawing: so few that its letters can be read on a telephone."""
LEFT, RIGHT, TOP, BOTTOM = 50, 30, 34, 54
"""The margins of a chart, for its scales."""
_TICKS = 8
"""At most so many marks on a scale."""
_SIZES = 6
"""At most so many sizes of messages that are written below a chart."""


class Tick(NamedTuple):
    """A mark on a scale: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """Hold one measured line: the points of the drawing, and for each what it says."""

    name: str
    number: int
    points: tuple[tuple[float, float, str], ...]

    @property
    def path(self) -> str:
        """Return the points as SVG writes them."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in self.points)


@dataclass(frozen=True)
class Chart:
    """Hold a picture of values over message sizes."""

    title: str
    unit: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[Line, ...]
    references: tuple[Tick, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Box:
    """Hold the lines that are written of a rank, and its colour."""

    tone: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Host:
    """Hold the ranks of one node."""

    name: str
    boxes: tuple[Box, ...]


def charts(told: Mapping[str, Any]) -> Iterator[Chart]:
    """Yield the pictures of the bandwidths that a check told."""
    for each in _rows(told.get("bandwidth")):
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            yield _chart(each)


def _rows(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield tables, where there is one, or a list of them."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, Mapping):
            yield each


def _chart(told: Mapping[str, Any]) -> Chart:
    series = [(str(row["name"]), _points(row["points"])) for row in _rows(told["series"])]
    references = [
        (float(row["value"]), str(row.get("name", "")), str(row.get("source", "")))
        for row in _rows(told.get("references", []))
    ]
    sizes = [x for _, points in series for x, _ in points]
    highest = max([y for _, points in series for _, y in points] + [row[0] for row in references])
    scale, marks = _scale(highest)
    low, high = math.log2(min(sizes)), math.log2(max(sizes))
    unit = str(told.get("unit", "GB/s"))

    def across(size: float) -> float:
        share = (math.log2(size) - low) / (high - low) if high > low else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - value / scale * (HEIGHT - TOP - BOTTOM)

    lines = (
        Line(
            name,
            number,
            tuple((across(x), up(y), f"{units.size(int(x))}: {y:.4g} {unit}") for x, y in points),
        )
        for number, (name, points) in enumerate(series)
    )
    return Chart(
        title=str(told.get("title", "bandwidth")),
        unit=unit,
        across=tuple(Tick(across(size), _short(size)) for size in _sizes(low, high)),
        up=tuple(Tick(up(mark), f"{mark:g}") for mark in marks),
        lines=tuple(lines),
        references=tuple(Tick(up(value), f"{name} {value:g}") for value, name, _ in references),
        sources=tuple(dict.fromkeys(source for *_, source in references if source)),
    )


def _points(rows: Iterable[Any]) -> list[tuple[float, float]]:
    points = sorted((float(size), float(value)) for size, value in rows)
    if not points or points[0][0] <= 0:
        raise ValueError("a size of a message is above 0")
    return points


def _scale(highest: float) -> tuple[float, list[float]]:
    """Return the top of a scale that holds ``highest``, and its marks, in steps of 1, 2 or 5."""
    if not highest > 0 or math.isinf(highest):
        raise ValueError("nothing was measured")
    power = 10.0 ** math.floor(math.log10(highest / _TICKS))
    step = next(power * each for each in (1, 2, 5, 10) if highest / (power * each) <= _TICKS)
    count = math.ceil(highest / step)
    return step * count, [step * number for number in range(count + 1)]


def _sizes(low: float, high: float) -> list[int]:
    """Return the powers of two to mark between two of their exponents."""
    first, last = math.ceil(low), math.floor(high)
    every = max(1, math.ceil((last - first + 1) / _SIZES))
    return [2**power for power in range(first, last + 1, every)]


def _short(size: int) -> str:
    return units.size(size).replace(".0 ", " ")


def hosts(told: Mapping[str, Any]) -> list[Host]:
    """Return where each rank is, by node: its GPU, cores and network interface."""
    nodes: dict[str, list[Mapping[str, Any]]] = {}
    for row in _rows(told.get("ranks")):
        nodes.setdefault(str(row.get("host", "")), []).append(row)
    return [_host(name, rows) for name, rows in nodes.items()]


def _host(name: str, rows: Sequence[Mapping[str, Any]]) -> Host:
    ordered = sorted(rows, key=lambda row: str(row.get("rank", "")).zfill(8))
    tones = list(dict.fromkeys(str(row.get("numa", "")) for row in ordered))
    boxes = tuple(
        Box(tone=tones.index(str(row.get("numa", ""))), lines=tuple(_box_lines(row)))
        for row in ordered
    )
    return Host(name, boxes)


def _box_lines(row: Mapping[str, Any]) -> Iterator[str]:
    named = (
        ("rank {}", ("rank",)),
        ("GCD {} {}", ("gcd", "pci")),
        ("CCD {} cores {}", ("ccd", "cores")),
        ("NUMA node {}", ("numa",)),
        ("NIC {}", ("nic",)),
    )
    for form, keys in named:
        values = [row.get(key) for key in keys]
        if any(value not in (None, "") for value in values):
            yield form.format(*("?" if value in (None, "") else value for value in values))
