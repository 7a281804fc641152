"""The table of options agrees with the programs: what it says to have a value has one."""

import re
import sys
from pathlib import Path

import pytest

from lumicontainer.importing.shell.options import read_options

from ....programs import run

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
_OPTION = re.compile(r"^\s+(?:(-\w), )?(--[a-z][\w-]*)(?:\.\.\.)?( <[^>]+>)?", re.MULTILINE)


@pytest.mark.parametrize(
    ("table", "command"),
    [("pip", "pip install"), ("uv pip", "uv pip install"), ("uv", "uv add"), ("uv", "uv sync")],
)
def test_each_option_is_known_with_its_value(table: str, command: str) -> None:
    program, *words = command.split()
    printed = run([BIN / program, *words, "--help"], env={"COLUMNS": "200"}).stdout
    options = [
        (option, value)
        for short, long, value in _OPTION.findall(printed)
        for option in filter(None, (short, long))
    ]
    assert len(options) > 40
    for option, value in options:
        parsed = read_options(table, [option, "x"])
        assert parsed.unknown == "", option
        assert parsed.operands == (() if value else ("x",)), option
        assert parsed.pairs[0][1] == ("x" if value else ""), option
