"""Tell what came of the checks: lines for the terminal, JSON, JUnit's XML."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from xml.etree import ElementTree

from .. import __version__
from ..checking import record
from ..errors import LaunchError
from .outcome import ERROR, FAILED, OUTCOMES, PASSED, SKIPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, BinaryIO

    from .outcome import Outcome
    from .place import Place

FORM = 1
"""Counts the forms of the JSON."""
STDOUT = "-"
_PARTIAL = ".partial"
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def listed(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return a line a check: its name, level, and what it proves."""
    width = max((len(each["name"]) for each in checks), default=0)
    return "".join(
        f"{each['name']:{width}}  {each['level']:5}  {each['proves']}\n" for each in checks
    )


def write_list(checks: Sequence[Mapping[str, Any]], json_file: str | None) -> None:
    """Write what the checks say: lines for the terminal, or all of it as JSON."""
    if json_file is None:
        sys.stdout.write(listed(checks))
        return
    text = json.dumps({"form": FORM, "checks": list(checks)}, indent=1) + "\n"
    _write(json_file, lambda stream: stream.write(text.encode()))


def line(check: Mapping[str, Any], came: Outcome) -> str:
    """Return what is told of a check when it is done."""
    text = f"{came.state:8} {check['name']} ({came.seconds:.1f} s)"
    if came.state == PASSED:
        return f"{text}\n"
    reason = "\n         ".join(filter(str.strip, printable(came.reason).splitlines()))
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
            "host": place.host,
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


class Report:
    """Keep what came of each check, and tell of it at once: on stderr, and in the files.

    So what was done is there even where all is killed at once, as srun does on Ctrl-C.
    """

    def __init__(
        self,
        checks: Sequence[Mapping[str, Any]],
        *,
        place: Place,
        level: str,
        json_file: str | None = None,
        junit_file: str | None = None,
    ) -> None:
        self.results: dict[str, Outcome] = {}
        self._checks = checks
        self._of: dict[str, Any] = {"place": place, "level": level, "begun": time.time()}
        self._json = json_file
        self._junit = junit_file
        self._lock = threading.Lock()
        _check_writable(json_file, junit_file)

    def note(self, check: Mapping[str, Any], came: Outcome) -> None:
        """Tell what came of a check."""
        total = len(self._checks)
        with self._lock:
            self.results[check["name"]] = came
            count = f"[{len(self.results):{len(str(total))}}/{total}]"
            sys.stderr.write(f"{count} {line(check, came)}")
            sys.stderr.flush()
            # The end, if there is one, tells of a disk that is full.
            with contextlib.suppress(LaunchError):
                self._write(_NOT_ENDED, STDOUT)

    def finish(self, interrupted: str) -> None:
        """Tell of all; the last line goes to stdout, unless JSON does."""
        told = self._write(interrupted, "")
        if self._json != STDOUT:
            sys.stdout.write(summary(told))

    def _write(self, interrupted: str, but: str) -> Mapping[str, Any]:
        """Write the files that are wanted but one; return what they tell."""
        told = result(self._checks, self.results, **self._of)
        told["interrupted"] = interrupted
        if self._junit and self._junit != but:
            tree = junit(told)
            _write(self._junit, lambda stream: tree.write(stream, "utf-8", xml_declaration=True))
        if self._json and self._json != but:
            text = json.dumps(told, indent=1) + "\n"
            _write(self._json, lambda stream: stream.write(text.encode()))
        return told


_NOT_ENDED = "lumi-verify has not come to its end"


def _check_writable(*files: str | None) -> None:
    """Raise LaunchError where a file cannot be written, before checks take their time."""
    for file in files:
        if file and file != STDOUT:
            there = os.path.lexists(file)
            try:
                open(file, "ab").close()
                if not there:
                    os.unlink(file)
            except OSError as error:
                raise _unwritable(file, error) from None


def _write(file: str, write: Callable[[BinaryIO], object]) -> None:
    try:
        if file == STDOUT:
            write(sys.stdout.buffer)
            sys.stdout.flush()
            return
        # A file that is there is whole; a pipe, or what stands for stdout, is no file.
        whole = not os.path.islink(file) and (os.path.isfile(file) or not os.path.exists(file))
        with open(f"{file}{_PARTIAL}" if whole else file, "wb") as stream:
            write(stream)
        if whole:
            os.replace(f"{file}{_PARTIAL}", file)
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: str, error: OSError) -> LaunchError:
    return LaunchError(
        f"cannot write '{file}'",
        where=os.getcwd(),
        why=error.strerror or "",
        mend="name a file in a folder that is bound and writable, or - for stdout",
    )


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
            told = ElementTree.SubElement(case, tag, message=printable(first))
            told.text = printable(f"{row['reason']}\nmend: {row['mend']}")
        ElementTree.SubElement(case, "system-out").text = printable(row["output"])
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return ElementTree.ElementTree(suites)


def printable(text: str) -> str:
    """Return a text without what XML has no form for, and what would steer a terminal."""
    return _UNPRINTABLE.sub("", text)
