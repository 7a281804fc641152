"""Ask ShellCheck about scripts, if it is installed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lumicontainer.errors import Place, Problem
from lumicontainer.jobs.lint.rules import LintFinding
from lumicontainer.system import process
from lumicontainer.system.budget import Helper
from lumicontainer.system.process import OverLimitError

_PROGRAM = "shellcheck"
_LIMITS = Helper(20.0, 64 << 20, "shorten the script", memory=1 << 30)
_LARGEST = 64 << 10
"""Bytes: ShellCheck takes a second for each 50 kB."""
_LEFT_OUT = "SC1017,SC1090,SC1091,SC2148,SC2154"
"""Carriage returns and the first line have rules of ours. Sourced files, modules and the output of
`lumicontainer binds` set variables that ShellCheck does not see."""


def is_installed() -> bool:
    """Return whether ShellCheck is installed."""
    return process.find(_PROGRAM) is not None


def check_scripts(scripts: Mapping[Path, bytes]) -> list[LintFinding]:
    """Return ShellCheck's errors and warnings about scripts, by its own names."""
    files = [str(path) for path, data in scripts.items() if len(data) <= _LARGEST]
    if not files:
        return []
    options = ["--norc", "--format=json1", "--severity=warning", f"--exclude={_LEFT_OUT}"]
    command = [_PROGRAM, *options, "--shell=bash", "--", *files]
    try:
        done = process.run_to_end(command, limits=_LIMITS)
        rows: Sequence[Mapping[str, Any]] = json.loads(done.stdout)["comments"]
    except (OverLimitError, ValueError, KeyError):
        return []
    return [_finding(row) for row in rows]


def _finding(row: Mapping[str, Any]) -> LintFinding:
    file, rule = str(row["file"]), f"SC{row['code']}"
    place = Place(file, int(row["line"]), int(row["column"]))
    end = Place(file, int(row["endLine"]), int(row["endColumn"]))
    hint = f"https://www.shellcheck.net/wiki/{rule}"
    problem = Problem(str(row["message"]), str(place), "", hint, str(row["level"]))
    return LintFinding(rule, place, end, problem, "", by=_PROGRAM)
