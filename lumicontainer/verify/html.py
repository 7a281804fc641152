"""Write the report of a verification as one self-contained HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lumicontainer.core.render.jinja import fill
from lumicontainer.inside.verify.outcome import OUTCOMES, PASSED, SKIPPED
from lumicontainer.verify import pictures
from lumicontainer.verify.subject import Row


def page(result: Mapping[str, Any]) -> bytes:
    """Return the report of a result as the bytes of an HTML page."""
    rows = result["checks"]
    passed = [row for row in rows if row["state"] == PASSED]
    text = fill(
        "report.html.j2",
        result=result,
        verdict=verdict(result["counts"]),
        states=list(reversed(OUTCOMES)),
        wrong=[row for row in rows if row["state"] in OUTCOMES[2:]],
        unproven=[row for row in rows if row["state"] == SKIPPED],
        passed=passed,
        longest=max((row["seconds"] for row in passed), default=0) or 1,
        measured=[(row, each) for row in rows for each in row["measured"]],
        charts=[(row["name"], each) for row in rows for each in pictures.charts(row["facts"])],
        maps=[(row["name"], *each) for row in rows for each in pictures.nodes(row["facts"])],
        size=pictures,
        limits=limits,
        worst_first=_worst_first,
    )
    return text.encode("utf-8", "backslashreplace")


def verdict(counts: Mapping[str, int]) -> str:
    """Return the result in a sentence; a skipped check never counts as passed."""
    total, passed, skipped = sum(counts.values()), counts[PASSED], counts[SKIPPED]
    wrong = total - passed - skipped
    if wrong:
        return f"{wrong} of {total} checks failed"
    if not passed:
        return "Nothing was proven"
    if skipped:
        return f"{passed} of {total} checks passed, {skipped} not proven"
    return f"All {total} checks passed" if total > 1 else "The check passed"


def limits(measured: Mapping[str, Any]) -> Iterator[str]:
    """Yield the limits of a measured value in words."""
    unit, value = measured.get("unit", ""), measured["value"]
    for word, key in (("at least", "minimum"), ("at most", "maximum"), ("reference", "reference")):
        if key in measured:
            share = key == "reference" and value is not None and measured[key]
            more = f", of which {100 * value / measured[key]:.0f} %" if share else ""
            yield f"{word} {measured[key]:g} {unit}{more}"


def _worst_first(ranks: Sequence[Row]) -> list[Row]:
    return sorted(
        ranks, key=lambda one: (-OUTCOMES.index(one["state"]), one["halted"], one["rank"])
    )
