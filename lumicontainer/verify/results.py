"""What came of all the checks, joined in the form of lumi-verify's own JSON."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer import __version__
from lumicontainer.errors import InputError
from lumicontainer.image.records import key
from lumicontainer.inside.verify import report
from lumicontainer.inside.verify.outcome import ERROR, FAILED, Outcome
from lumicontainer.verify.subject import Row, Subject

HERE: Mapping[str, Any] = {
    "nodes": 1,
    "ranks": 1,
    "gpus": 0,
    "architecture": "",
    "network": "",
}
"""The place of a report to which no lumi-verify told of one."""


@dataclass(frozen=True)
class Part:
    """Hold what one run of lumi-verify reported, or why it reported nothing."""

    checks: Sequence[Row]
    data: Mapping[str, Any] | None = None
    why: str = ""

    @property
    def interrupted(self) -> str:
        """Why lumi-verify did not come to its end; empty where it did, or tells nothing."""
        return str((self.data or {}).get("interrupted", ""))

    def rows(self) -> list[Row]:
        """Return the row of each check, then of what else was reported, as ranks that are lost.

        A check that was not reported is an error.
        """
        told = {each["name"]: each for each in (self.data or {}).get("checks", ())}
        why = self.why or self.interrupted or "lumi-verify tells nothing of it"
        own = [
            told.pop(check["name"], None) or row(check, Outcome(ERROR, why))
            for check in self.checks
        ]
        return [*own, *told.values()]


def read(text: bytes) -> Mapping[str, Any] | None:
    """Return what lumi-verify printed; None where that is no report of it."""
    try:
        data = json.loads(text)
    except ValueError:
        return None
    return data if isinstance(data, dict) and isinstance(data.get("checks"), list) else None


def row(check: Row, came: Outcome) -> Row:
    """Return a check with what came of it."""
    told = {name: check[name] for name in ("name", "summary", "level", "hint")}
    return {**told, **came.plain(), "seconds": round(came.seconds, 2)}


def joined(
    subject: Subject | None, parts: Sequence[Part], rows: Iterable[Row], *, head: Row
) -> dict[str, Any]:
    """Return the whole result: the rows of the parts, then other ones.

    ``head`` has the ``file`` of the image, the ``level``, and when it was ``begun`` (seconds since
    1970). The place is that of the first part that reported, which most checks are in.
    """
    every = [*(each for part in parts for each in part.rows()), *rows]
    resolved = subject.resolved if subject else {}
    told = {name: resolved.get(name, "") for name in ("recipe", "platform", "profile")}
    place = next((part.data["place"] for part in parts if part.data), None)
    return {
        "form": report.FORM,
        "lumicontainer": __version__,
        "image": {**told, "file": str(head["file"]), "key": _key(head["file"])},
        "level": head["level"],
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(head["begun"])),
        "seconds": round(time.time() - head["begun"], 2),
        "place": place or {"host": os.uname().nodename, **HERE},
        "counts": report.counts(every),
        "checks": every,
    }


def _key(image: Path) -> str:
    """Return the key of an image; nothing where the image is too damaged to say it."""
    try:
        return key(image)
    except InputError:
        return ""


def held(result: Mapping[str, Any]) -> bool:
    """Tell whether no check failed."""
    counts = result["counts"]
    return not counts[FAILED] and not counts[ERROR]


def summary(result: Mapping[str, Any]) -> str:
    """Return what is said of each check that failed, then how many checks came to what."""
    lines = []
    for row in result["checks"]:
        if row["state"] in (FAILED, ERROR):
            reason = report.printable(row["reason"].partition("\n")[0])
            lines.append(f"{row['state']:8} {row['name']}: {reason}\n")
            if command := row.get("again"):
                lines.append(f"{'':8} run it again: {command}\n")
    return "".join(lines) + report.summary(result)
