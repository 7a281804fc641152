"""Report outcomes of checks: as lines for the terminal, JSON and JUnit XML."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from .. import __version__
from ..checking import record
from ..errors import LaunchError
from .outcome import ERROR, FAILED, OUTCOMES, PASSED, SKIPPED, Outcome
from .resources import Place

FORM = 1
"""The version of the JSON's form."""
STDOUT = "-"
_PARTIAL = ".partial"
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def listed(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return a line a check: its name, level, and what it proves."""
    width = max((len(each["name"]) for each in checks), default=0)
    return "".join(
        f"{each['name']:{width}}  {each['level']:5}  {each['summary']}\n" for each in checks
    )


def write_list(checks: Sequence[Mapping[str, Any]], json_file: str | None) -> None:
    """Print the checks as lines, or write them as JSON."""
    if json_file is None:
        sys.stdout.write(listed(checks))
        return
    write(json_file, as_json({"form": FORM, "checks": list(checks)}))


def line(check: Mapping[str, Any], outcome: Outcome) -> str:
    """Return the lines about a check's outcome."""
    text = f"{outcome.state:8} {check['name']} ({outcome.seconds:.1f} s)"
    if outcome.state == PASSED:
        return f"{text}\n"
    reason = "\n         ".join(filter(str.strip, printable(outcome.reason).splitlines()))
    if outcome.state == SKIPPED:
        return f"{outcome.state:8} {check['name']}: {reason}\n"
    return f"{text}\n    why: {reason}\n   hint: {check['hint']}\n"


def result(
    checks: Sequence[Mapping[str, Any]],
    results: Mapping[str, Outcome],
    *,
    place: Place,
    level: str,
    begun: float,
) -> dict[str, Any]:
    """Return all results as plain data, with thresholds beside the measured values.

    ``begun`` is a time in seconds since 1970.
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


def _row(check: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    results = {name: check[name] for name in ("name", "summary", "level", "hint")}
    return {**results, **outcome.plain(), "seconds": round(outcome.seconds, 2)}


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of checks in each state."""
    states = [row["state"] for row in rows]
    return {state: states.count(state) for state in OUTCOMES}


def summary(result: Mapping[str, Any]) -> str:
    """Return the last line: the number of checks in each state."""
    counted = result["counts"]
    states = ", ".join(f"{number} {state}" for state, number in counted.items() if number)
    total = sum(counted.values())
    word = "check" if total == 1 else "checks"
    return f"{total} {word}: {states or 'none'}, in {result['seconds']:.1f} s\n"


class Report:
    """Report each outcome at once on stderr and in the files.

    So results are not lost if everything is killed, as srun does on Ctrl-C.
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
        self._checks = list(checks)
        self._of: dict[str, Any] = {"place": place, "level": level, "begun": time.time()}
        self._json = json_file
        self._junit = junit_file
        self._lock = threading.Lock()
        for file in filter(None, (json_file, junit_file)):
            check_writable(file)

    def note(self, check: Mapping[str, Any], outcome: Outcome) -> None:
        """Report the outcome of a check."""
        total = len(self._checks)
        with self._lock:
            self.results[check["name"]] = outcome
            count = f"[{len(self.results):{len(str(total))}}/{total}]"
            sys.stderr.write(f"{count} {line(check, outcome)}")
            sys.stderr.flush()
            # If the disk is full, ``finish`` reports it.
            with contextlib.suppress(LaunchError):
                self._write(_NOT_ENDED, _is_file)

    def add(self, check: Mapping[str, Any], outcome: Outcome) -> None:
        """Report the outcome of an additional check."""
        self._checks.append(check)
        self.note(check, outcome)

    def finish(self, interrupted: str) -> None:
        """Write the files, and print the last line to stdout unless a file goes there."""
        results = self._write(interrupted, lambda _: True)
        if not any(file and _is_stdout(file) for file in (self._json, self._junit)):
            sys.stdout.write(summary(results))

    def _write(self, interrupted: str, wanted: Callable[[str], bool]) -> Mapping[str, Any]:
        """Write the selected files; return the results."""
        results = result(self._checks, self.results, **self._of)
        results["interrupted"] = interrupted
        if self._junit and wanted(self._junit):
            write(self._junit, as_junit(self._with_missing(results, interrupted)))
        if self._json and wanted(self._json):
            write(self._json, as_json(results))
        return results

    def _with_missing(self, results: Mapping[str, Any], why: str) -> Mapping[str, Any]:
        """Return the results with an error for each check without an outcome.

        JUnit XML has no other form for incomplete results.
        """
        left = [
            _row(check, Outcome(ERROR, why))
            for check in self._checks
            if check["name"] not in self.results
        ]
        rows = [*results["checks"], *left]
        return {**results, "checks": rows, "counts": counts(rows)}


_NOT_ENDED = "lumi-verify did not finish"


def check_writable(file: str) -> None:
    """Raise LaunchError if a file cannot be written, before the checks run.

    A pipe is not opened: its reader would see the end of it.
    """
    if not _is_file(file) and not os.path.isdir(file):
        return
    there = os.path.lexists(file)
    try:
        open(file, "ab").close()
        if not there:
            os.unlink(file)
    except OSError as error:
        raise _unwritable(file, error) from None


def write(file: str, content: bytes) -> None:
    """Write a whole file or leave the old one; raise LaunchError if that fails."""
    try:
        if _is_stdout(file):
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
        elif not _is_file(file) or os.path.islink(file) or not _replaced(file, content):
            with open(file, "wb", opener=_not_waiting) as stream:
                stream.write(content)
    except OSError as error:
        raise _unwritable(file, error) from None


def _not_waiting(file: str, flags: int) -> int:
    """Open a file; raise OSError for a pipe without a reader, for which open() would wait."""
    descriptor = os.open(file, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def _replaced(file: str, content: bytes) -> bool:
    """Replace a file; return whether its folder permits that.

    If only the file is bound into the container, its folder is the image's.
    """
    partial = f"{file}{_PARTIAL}"
    try:
        with open(partial, "wb") as stream:
            stream.write(content)
        os.replace(partial, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.EBUSY):
            return False
        raise
    return True


def _is_file(file: str) -> bool:
    """Return whether this is, or would be, a regular file: not a pipe, and not stdout."""
    return not _is_stdout(file) and (os.path.isfile(file) or not os.path.exists(file))


def _is_stdout(file: str) -> bool:
    try:
        return file == STDOUT or os.path.samestat(os.stat(file), os.fstat(1))
    except OSError:
        return False


def _unwritable(file: str, error: OSError) -> LaunchError:
    return LaunchError(
        f"cannot write '{file}'",
        where=os.getcwd(),
        why="the pipe has no reader" if error.errno == errno.ENXIO else error.strerror or "",
        hint="choose a file in an existing, bound and writable folder, or - for stdout",
    )


def as_json(results: Mapping[str, Any]) -> bytes:
    """Return data as JSON."""
    return json.dumps(results, indent=1).encode() + b"\n"


def as_junit(results: Mapping[str, Any]) -> bytes:
    """Return results in JUnit's form of XML, which CI servers read."""
    counted = results["counts"]
    suite = ElementTree.Element(
        "testsuite",
        name=f"lumi-verify {results['image']['recipe']}",
        tests=str(sum(counted.values())),
        failures=str(counted[FAILED]),
        errors=str(counted[ERROR]),
        skipped=str(counted[SKIPPED]),
        time=str(results["seconds"]),
        timestamp=results["begun"].rstrip("Z"),
        hostname=results["place"]["host"],
    )
    for row in results["checks"]:
        layer, _, name = row["name"].partition("/")
        case = ElementTree.SubElement(
            suite, "testcase", classname=layer, name=name, time=str(row["seconds"])
        )
        tag = {FAILED: "failure", ERROR: "error", SKIPPED: "skipped"}.get(row["state"])
        if tag:
            first = row["reason"].partition("\n")[0]
            problem = ElementTree.SubElement(case, tag, message=printable(first))
            problem.text = printable(f"{row['reason']}\nhint: {row['hint']}")
        ElementTree.SubElement(case, "system-out").text = printable(row["output"])
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return bytes(ElementTree.tostring(suites, "utf-8", xml_declaration=True))


def printable(text: str) -> str:
    """Return a text without characters that are invalid in XML or control a terminal."""
    return _UNPRINTABLE.sub("", text)
