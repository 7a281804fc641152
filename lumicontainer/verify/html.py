"""Write the report of a verification as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.core.render.jinja import fill
from lumicontainer.inside.verify.outcome import OUTCOMES, PASSED, SKIPPED
from lumicontainer.verify import pictures
from lumicontainer.verify.subject import Row

_LAST = 20
"""Lines of a failed check's output that are shown without being asked for."""


class Excerpt(NamedTuple):
    """Hold what is shown of an output: its last lines, and whether it has more."""

    last: list[str]
    lines: int
    shown: bool
    """Whether the last lines say more than the reason does."""

    @property
    def all(self) -> bool:
        """Tell whether the output is longer than what is shown of it."""
        return self.lines > len(self.last)


def page(result: Mapping[str, Any]) -> bytes:
    """Return the report of a result as the bytes of a page of HTML."""
    rows = result["checks"]
    passed = [row for row in rows if row["state"] == PASSED]
    wrong = [row for row in rows if row["state"] in OUTCOMES[2:]]
    unproven = _by_reason([row for row in rows if row["state"] == SKIPPED])
    text = fill(
        "report.html.j2",
        result=result,
        verdict=verdict(result["counts"]),
        states=list(reversed(OUTCOMES)),
        wrong=wrong,
        unproven=unproven,
        passed=passed,
        longest=max((row["seconds"] for row in passed), default=0) or 1,
        measured=[(row, each) for row in rows for each in row["measured"]],
        charts=[(row["name"], each) for row in rows for each in pictures.charts(row["facts"])],
        maps=[(row["name"], each) for row in rows for each in pictures.hosts(row["facts"])],
        size=pictures,
        excerpt=excerpt,
        limits=limits,
        worst_first=_worst_first,
    )
    return text.encode("utf-8", "backslashreplace")


def verdict(counts: Mapping[str, int]) -> str:
    """Return the result in a sentence; what was skipped is never counted as passed."""
    total, passed, skipped = sum(counts.values()), counts[PASSED], counts[SKIPPED]
    wrong = total - passed - skipped
    if wrong:
        return f"{wrong} of {total} checks failed"
    if not passed:
        return "Nothing was proven"
    if skipped:
        return f"{passed} of {total} checks passed, {skipped} not proven"
    return f"All {total} checks passed" if total > 1 else "The check passed"


def excerpt(row: Row) -> Excerpt | None:
    """Return what to show of the output of a check that does not hold; None where it is empty."""
    lines = row["output"].strip().splitlines()
    if not lines:
        return None
    return Excerpt(lines[-_LAST:], len(lines), lines[-1] not in row["reason"])


def limits(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words what a measured value is held to."""
    unit, value = measured.get("unit", ""), measured["value"]
    for word, key in (("at least", "minimum"), ("at most", "maximum"), ("reference", "reference")):
        if key in measured:
            share = key == "reference" and value is not None and measured[key]
            told = f", of which {100 * value / measured[key]:.0f} %" if share else ""
            yield f"{word} {measured[key]:g} {unit}{told}"


def _by_reason(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Return the reasons why checks were skipped, each with those that it is the reason of."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["reason"], []).append(row)
    return list(found.items())


def _worst_first(ranks: Sequence[Row]) -> list[Row]:
    return sorted(
        ranks, key=lambda one: (-OUTCOMES.index(one["state"]), one["halted"], one["rank"])
    )
