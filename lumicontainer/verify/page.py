"""Write the report of a verification as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumicontainer.inside.verify.outcome import OUTCOMES
from lumicontainer.verify import pictures
from lumicontainer.verify.templates import filled


def page(result: Mapping[str, Any]) -> bytes:
    """Return the report of a result as the bytes of a page of HTML."""
    rows = result["checks"]
    text = filled(
        "report.html.j2",
        result=result,
        states=list(reversed(OUTCOMES)),
        wrong=[row for row in rows if row["state"] in OUTCOMES[2:]],
        charts=[(row["name"], each) for row in rows for each in pictures.charts(row["told"])],
        maps=[(row["name"], each) for row in rows for each in pictures.hosts(row["told"])],
        bars=pictures.bars(rows),
        size=pictures,
    )
    return text.encode("utf-8", "backslashreplace")
