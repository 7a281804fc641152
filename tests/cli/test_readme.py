"""The CI files in the README can be used: they parse, and every command in them exists."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lumicontainer.cli import make_parser

from ..conftest import ROOT

TEXT = (ROOT / "README.md").read_text().partition("\n### In CI\n")[2].partition("\n## ")[0]
FILES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]


def lines(value: Any, key: str = "") -> Iterator[str]:
    """Yield the lines of shell in a CI file."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from lines(below, name)
    elif isinstance(value, list):
        for below in value:
            yield from lines(below, key)
    elif key in ("run", "script", "before_script"):
        yield value


@pytest.mark.parametrize("file", FILES, ids=["github", "gitlab"])
def test_a_ci_file_installs_builds_and_verifies_by_commands_that_exist(file: Any) -> None:
    shell = list(lines(file))
    commands = [shlex.split(line)[1:] for line in shell if line.startswith("lumicontainer ")]
    assert [words[0] for words in commands] == ["build", "verify"]
    for words in commands:
        make_parser([words[0]]).parse_args(words)
    script = next(line for line in shell if line.endswith(".sh"))
    assert os.access(ROOT / script, os.X_OK)


def test_a_ci_file_keeps_the_reports_that_verify_writes() -> None:
    github, gitlab = FILES
    assert github[True] == ["push"]  # YAML 1.1 reads `on` so, and GitHub's own reader does not
    kept = github["jobs"]["image"]["steps"][-1]
    assert (kept["if"], kept["with"]["path"]) == ("always()", "verify.*")
    assert gitlab["image"]["artifacts"]["reports"]["junit"] == "verify.xml"
    for file in FILES:
        (verify,) = (line for line in lines(file) if " verify " in line)
        assert "--junit verify.xml --html verify.html" in verify
