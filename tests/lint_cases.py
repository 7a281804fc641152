"""The scripts of ``tests/lint`` with what must be found in each."""

import re
from functools import cache
from pathlib import Path
from typing import TypeAlias

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Platform
from lumicontainer.jobs.lint.rules import LintFinding

from .conftest import ROOT

Found: TypeAlias = list[tuple[int, int, str]]
FAULTS, CLEAN = (
    sorted((ROOT / "tests/lint" / folder).glob("*.sbatch")) for folder in ("faults", "clean")
)
_EXPECTED = re.compile(r"(?m)^#: (\d+):(\d+) (\S+)$")


def expected(script: Path) -> Found:
    """Return the lines, columns and rules that the end of a script names."""
    rows = _EXPECTED.findall(script.read_text())
    return sorted((int(line), int(column), rule) for line, column, rule in rows)


def places(findings: list[LintFinding]) -> Found:
    """Return the lines, columns and rules of findings."""
    return sorted((each.place.line, each.place.column, each.rule) for each in findings)


@cache
def lumi() -> Platform:
    """Return the platform that the scripts are for."""
    return open_catalog().platform("lumi-g")
