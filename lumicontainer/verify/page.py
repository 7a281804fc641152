"""Write the report of a verification as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumicontainer.inside.verify.outcome import OUTCOMES
from lumicontainer.verify import pictures


def page(result: Mapping[str, Any]) -> bytes:
    """Return the report of a result as the bytes of a page of HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - 30 ms

    environment = Environment(
        loader=PackageLoader("lumicontainer"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    rows = result["checks"]
    text = environment.get_template("report.html.j2").render(
        result=result,
        states=list(reversed(OUTCOMES)),
        wrong=[row for row in rows if row["state"] in OUTCOMES[2:]],
        charts=[(row["name"], each) for row in rows for each in pictures.charts(row["told"])],
        maps=[(row["name"], each) for row in rows for each in pictures.hosts(row["told"])],
        bars=pictures.bars(rows),
        size=pictures,
    )
    return text.encode("utf-8", "backslashreplace")
