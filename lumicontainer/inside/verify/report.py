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
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from .. import __version__, messages
from ..checking import record
from ..errors import LaunchError
from ..launch.program import here
from .outcome import ERROR, FAILED, OUTCOMES, PASSED, SKIPPED, Outcome
from .resources import Check, Place

FORM = 1  # the version of the JSON's form
STDOUT = "-"
_OF_PLACE = ("host", "nodes", "ranks", "gpus", "architecture", "network")
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def listed(checks: Sequence[Check]) -> str:
    """Return a line for each check: its name, level, and what it proves."""
    width = max((len(each["name"]) for each in checks), default=0)
    return "".join(
        f"{each['name']:{width}}  {each['level']:5}  {each['summary']}\n" for each in checks
    )


def write_list(checks: Sequence[Check], json_file: str | None) -> None:
    """Print the checks as lines, or write them as JSON."""
    if json_file is None:
        try:
            messages.write(sys.stdout, listed(checks))
        except OSError as error:
            raise _unwritable(STDOUT, error) from None
        return
    write(json_file, as_json({"form": FORM, "checks": list(checks)}))


def line(check: Check, outcome: Outcome) -> str:
    """Return the lines about a check's outcome."""
    text = f"{outcome.state:8} {check['name']} ({outcome.seconds:.1f} s)"
    if outcome.state == PASSED:
        return f"{text}\n"
    reason = "\n         ".join(filter(str.strip, printable(outcome.reason).splitlines()))
    if outcome.state == SKIPPED:
        return f"{outcome.state:8} {check['name']}: {reason}\n"
    return f"{text}\n    why: {reason}\n   hint: {check['hint']}\n"


def row(check: Check, outcome: Outcome) -> dict[str, Any]:
    """Return a check with its outcome."""
    results = {name: check[name] for name in ("name", "summary", "level", "hint")}
    return {**results, **outcome.plain(), "seconds": round(outcome.seconds, 2)}


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of checks in each state."""
    states = [each["state"] for each in rows]
    return {state: states.count(state) for state in OUTCOMES}


def summary(result: Mapping[str, Any]) -> str:
    """Return the last line: the number of checks in each state."""
    counted = result["counts"]
    states = ", ".join(f"{number} {state}" for state, number in counted.items() if number)
    total = sum(counted.values())
    word = "check" if total == 1 else "checks"
    return f"{total} {word}: {states or 'none'}, in {result['seconds']:.1f} s\n"


@dataclass
class Report:
    """Report each outcome at once on stderr and in the files.

    So results are not lost if everything is killed, as srun does on Ctrl-C.
    """

    checks: list[Check]
    place: Place
    level: str
    json_file: str | None = None
    junit_file: str | None = None
    results: dict[str, Outcome] = field(default_factory=dict)
    begun: float = field(default_factory=time.time)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for file in filter(None, (self.json_file, self.junit_file)):
            check_writable(file)

    def note(self, check: Check, outcome: Outcome) -> None:
        """Report the outcome of a check."""
        total = len(self.checks)
        with self._lock:
            self.results[check["name"]] = outcome
            count = f"[{len(self.results):{len(str(total))}}/{total}]"
            # If the disk is full, ``finish`` reports it.
            with contextlib.suppress(LaunchError):
                self._write("lumi-verify did not finish", _is_file)
            messages.write_message(f"{count} {line(check, outcome)}")

    def finish(self, interrupted: str) -> None:
        """Write the files, and print the last line to stdout unless a file goes there."""
        results = self._write(interrupted, lambda _: True)
        if not any(file and _is_stdout(file) for file in (self.json_file, self.junit_file)):
            with contextlib.suppress(OSError):
                messages.write(sys.stdout, summary(results))

    def _write(self, interrupted: str, is_selected: Callable[[str], bool]) -> Mapping[str, Any]:
        """Write the selected files; return the results."""
        results = self._result()
        results["interrupted"] = interrupted
        if self.junit_file and is_selected(self.junit_file):
            write(self.junit_file, as_junit(self._with_missing(results, interrupted)))
        if self.json_file and is_selected(self.json_file):
            write(self.json_file, as_json(results))
        return results

    def _result(self) -> dict[str, Any]:
        resolved = record("resolved.json")
        known = self.results
        rows = [row(each, known[each["name"]]) for each in self.checks if each["name"] in known]
        return {
            "form": FORM,
            "lumicontainer": __version__,
            "image": {name: resolved.get(name, "") for name in ("recipe", "platform", "profile")},
            "level": self.level,
            "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.begun)),
            "seconds": round(time.time() - self.begun, 2),
            "place": {name: getattr(self.place, name) for name in _OF_PLACE},
            "counts": counts(rows),
            "checks": rows,
        }

    def _with_missing(self, results: Mapping[str, Any], why: str) -> Mapping[str, Any]:
        """Return the results with an error for each check without an outcome.

        JUnit XML has no other form for incomplete results.
        """
        known, lost = self.results, Outcome(ERROR, why)
        left = [row(each, lost) for each in self.checks if each["name"] not in known]
        rows = [*results["checks"], *left]
        return {**results, "checks": rows, "counts": counts(rows)}


def check_writable(file: str) -> None:
    """Raise LaunchError if a file cannot be written, before the checks run.

    A pipe is not opened: its reader would see the end of it.
    """
    if not _is_file(file) and not os.path.isdir(file):
        return
    exists = os.path.lexists(file)
    try:
        open(file, "ab").close()
        if not exists:
            os.unlink(file)
    except OSError as error:
        raise _unwritable(file, error) from None


def write(file: str, content: bytes) -> None:
    """Write a whole file or leave the old one; raise LaunchError if that fails."""
    try:
        if _is_stdout(file):
            messages.write(sys.stdout, content)
        elif not _is_file(file) or os.path.islink(file) or not _replace_file(file, content):
            with open(file, "wb", opener=_not_waiting) as stream:
                stream.write(content)
    except OSError as error:
        raise _unwritable(file, error) from None


def _not_waiting(file: str, flags: int) -> int:
    """Open a file; raise OSError for a pipe without a reader, for which open() would wait."""
    descriptor = os.open(file, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def _replace_file(file: str, content: bytes) -> bool:
    """Replace a file; return whether its folder permits that.

    If only the file is bound into the container, its folder is the image's.
    """
    partial = f"{file}.partial"
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
    why = "the pipe has no reader" if error.errno == errno.ENXIO else error.strerror or ""
    hint = "choose a file in an existing, bound and writable folder, or - for stdout"
    return LaunchError(f"cannot write '{file}'", here(), why, hint)


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
    for each in results["checks"]:
        layer, _, name = each["name"].partition("/")
        case = ElementTree.SubElement(
            suite, "testcase", classname=layer, name=name, time=str(each["seconds"])
        )
        tag = {FAILED: "failure", ERROR: "error", SKIPPED: "skipped"}.get(each["state"])
        if tag:
            first = each["reason"].partition("\n")[0]
            problem = ElementTree.SubElement(case, tag, message=printable(first))
            problem.text = printable(f"{each['reason']}\nhint: {each['hint']}")
        ElementTree.SubElement(case, "system-out").text = printable(each["output"])
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    return bytes(ElementTree.tostring(suites, "utf-8", xml_declaration=True))


def printable(text: str) -> str:
    """Return a text without characters that are invalid in XML or control a terminal."""
    return _UNPRINTABLE.sub("", text)
