"""Tell what came of the checks: lines for the terminal, JSON, JUnit's XML."""

from __future__ import annotations

import json
import os
import sys
import time
from xml.etree import ElementTree

from .. import __version__
from ..checking import record
from .outcome import ERROR, FAILED, OUTCOMES, PASSED, SKIPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .outcome import Outcome
    from .place import Place

FORM = 1
"""Counts the forms of the JSON."""


def listed(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return a line a check: its name, level, and what it proves."""
    width = max((len(each["name"]) for each in checks), default=0)
    return "".join(
        f"{each['name']:{width}}  {each['level']:5}  {each['proves']}\n" for each in checks
    )


def line(check: Mapping[str, Any], came: Outcome) -> str:
    """Return what is told of a check when it is done."""
    text = f"{came.state:8} {check['name']} ({came.seconds:.1f} s)"
    if came.state == PASSED:
        return f"{text}\n"
    reason = came.reason.replace("\n", "\n         ")
    if came.state == SKIPPED:
        return f"{came.state:8} {check['name']}: {reason}\n"
    return f"{text}\n    why: {reason}\n   mend: {check['mend']}\n"


def result(
    checks: Sequence[Mapping[str, Any]],
    results: Mapping[str, Outcome],
    *,
    place: Place,
    level: str,
    begun: float,
) -> dict[str, Any]:
    """Return all that is known after the checks, as plain data.

    ``begun`` is a time in seconds since 1970. Thresholds stand with what was measured.
    """
    resolved = record("resolved.json")
    rows = [_row(check, results[check["name"]]) for check in checks if check["name"] in results]
    return {
        "form": FORM,
        "lumicontainer": __version__,
        "image": {name: resolved.get(name, "") for name in ("recipe", "platform", "profile")},
        "level": level,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun)),
        "seconds": round(time.time() - begun, 2),
        "place": {
            "host": os.uname().nodename,
            "nodes": place.nodes,
            "ranks": place.ranks,
            "gpus": place.gpus,
            "architecture": place.architecture,
            "network": place.network,
        },
        "counts": counts(rows),
        "checks": rows,
    }


def _row(check: Mapping[str, Any], came: Outcome) -> dict[str, Any]:
    told = {name: check[name] for name in ("name", "proves", "level", "mend")}
    return {**told, **came.plain(), "seconds": round(came.seconds, 2)}


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many checks there are of each state."""
    states = [row["state"] for row in rows]
    return {state: states.count(state) for state in OUTCOMES}


def summary(result: Mapping[str, Any]) -> str:
    """Return the last line: how many checks came to what."""
    counted = result["counts"]
    told = [f"{number} {state}" for state, number in counted.items() if number]
    total = sum(counted.values())
    word = "check" if total == 1 else "checks"
    return f"{total} {word}: {', '.join(told) or 'none'}, in {result['seconds']:.1f} s\n"


def write(result: Mapping[str, Any], *, json_file: str | None, junit_file: str | None) -> None:
    """Write the results where they are wanted; the last line goes to stdout, unless JSON does."""
    if junit_file:
        junit(result).write(junit_file, encoding="utf-8", xml_declaration=True)
    text = json.dumps(result, indent=1) + "\n"
    if json_file == "-":
        sys.stdout.write(text)
        return
    if json_file:
        with open(json_file, "w", encoding="utf-8") as stream:
            stream.write(text)
    sys.stdout.write(summary(result))


def junit(result: Mapping[str, Any]) -> ElementTree.ElementTree:
    """Return the results in the form that JUnit gave its name to, which CI servers read."""
    counted = result["counts"]
    suite = ElementTree.Element(
        "testsuite",
        name=f"lumi-verify {result['image']['recipe']}",
        tests=str(sum(counted.values())),
        failures=str(counted[FAILED]),
        errors=str(counted[ERROR]),
        skipped=str(counted[SKIPPED]),
        time=str(result["seconds"]),
        timestamp=result["begun"].rstrip("Z"),
        hostname=result["place"]["host"],
    )
    for row in result["checks"]:
        layer, _, name = row["name"].partition("/")
        case = ElementTree.SubElement(
            suite, "testcase", classname=layer, name=name, time=str(row["seconds"])
        )
        tag = {FAILED: "failure", ERROR: "error", SKIPPED: "skipped"}.get(row["state"])
        if tag:
            first = row["reason"].partition("\n")[0]
            told = ElementTree.SubElement(case, tag, message=_printable(first))
            told.text = _printable(f"{row['reason']}\nmend: {row['mend']}")
        ElementTree.SubElement(case, "system-out").text = _printable(row["output"])
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return ElementTree.ElementTree(suites)


def _printable(text: str) -> str:
    """Return a text without the characters that XML has no form for."""
    return "".join(c for c in text if c >= " " or c in "\n\t")
