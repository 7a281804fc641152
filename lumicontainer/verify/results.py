"""Join the results of all checks, in the format of lumi-verify's JSON."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer import __version__
from lumicontainer.errors import InputError
from lumicontainer.image.records import key
from lumicontainer.inside.verify import report
from lumicontainer.inside.verify.outcome import ERROR, FAILED, Outcome
from lumicontainer.verify.subject import Row, Subject

row = report.row
HERE: Mapping[str, Any] = {"nodes": 1, "ranks": 1, "gpus": 0, "architecture": "", "network": ""}
"""The place of a report if no lumi-verify reported one."""


class PartialResult(NamedTuple):
    """Hold the report of one run of lumi-verify, or why it did not report."""

    checks: Sequence[Row]
    data: Mapping[str, Any] | None = None
    why: str = ""

    @property
    def interrupted(self) -> str:
        """The reason why lumi-verify did not finish; empty if it finished."""
        return str((self.data or {}).get("interrupted", ""))

    def rows(self) -> list[Row]:
        """Return the row of each check, an error without a result, then the report's other rows."""
        reported = {each["name"]: each for each in (self.data or {}).get("checks", ())}
        outcome = Outcome(ERROR, self.why or self.interrupted or "lumi-verify did not report it")
        own = [reported.pop(each["name"], None) or row(each, outcome) for each in self.checks]
        return [*own, *reported.values()]


def joined(
    subject: Subject | None, parts: Sequence[PartialResult], rows: Iterable[Row], *, head: Row
) -> dict[str, Any]:
    """Return the whole result: the rows of the parts, then other rows.

    ``head`` has the ``file`` of the image, the ``level``, and the time when it was ``begun``, in
    seconds since 1970. The place comes from the first part with a report.
    """
    every = [*(each for part in parts for each in part.rows()), *rows]
    resolved = subject.resolved if subject else {}
    names = {name: resolved.get(name, "") for name in ("recipe", "platform", "profile")}
    place: Mapping[str, Any] = next((part.data["place"] for part in parts if part.data), {})
    return {
        "form": report.FORM,
        "lumicontainer": __version__,
        "image": {**names, "file": str(head["file"]), "key": _key(head["file"])},
        "level": head["level"],
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(head["begun"])),
        "seconds": round(time.time() - head["begun"], 2),
        "place": {"host": os.uname().nodename, **HERE, **place},
        "counts": report.counts(every),
        "checks": every,
    }


def _key(image: Path) -> str:
    """Return the key of an image; empty if the image is too damaged."""
    try:
        return key(image)
    except InputError:
        return ""


def passed(result: Mapping[str, Any]) -> bool:
    """Return whether no check failed."""
    return not result["counts"][FAILED] and not result["counts"][ERROR]


def summary(result: Mapping[str, Any]) -> str:
    """Return lines about each check that failed, then the number of checks in each state."""
    lines = []
    for row in result["checks"]:
        if row["state"] in (FAILED, ERROR):
            reason = report.printable(row["reason"].partition("\n")[0])
            lines.append(f"{row['state']:8} {row['name']}: {reason}\n")
            if command := row.get("again"):
                lines.append(f"{'':8} run it again: {command}\n")
    return "".join(lines) + report.summary(result)
