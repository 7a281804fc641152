"""Messages on a terminal keep their indent, and their labels have colours."""

import os
import re
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.errors import Problem
from lumicontainer.system.terminal.style import coloured, wrapped

from ...terminals import Terminal

LONG = "the driver of the nodes is older than this, and what it misses is found at the first start"
PROBLEM = f"{Problem('it cannot work', 'a.yaml:1:1', LONG, f'take another one: {LONG}')}\n"
SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


def test_long_lines_of_a_message_are_folded_below_their_beginning() -> None:
    lines = wrapped(PROBLEM, 40).splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0] == "error: it cannot work"
    assert lines[2] == "    why: the driver of the nodes is"
    assert all(line.startswith(" " * 9) or line[:9].endswith(": ") for line in lines[1:])


@given(st.lists(st.text("abc:- ", min_size=1)), st.integers(1, 120))
def test_folding_loses_no_word(words: list[str], columns: int) -> None:
    text = f"{Problem('x', why=' '.join(words), hint=' '.join(words))}\n"
    assert wrapped(text, columns).split() == text.split()
    assert wrapped(text, columns).endswith("\n")


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG}\n",
        f"         {LONG}\n",
        f"pytorch: {LONG}\n",
        f"error: x\n{LONG}\n",
        f"   hint: lumicontainer build {LONG}\n",
        f"   hint: sudo sysctl {LONG}\n",
    ],
)
def test_what_is_no_message_and_a_command_to_copy_stay_one_line(text: str) -> None:
    assert wrapped(text, 40) == text


def test_a_very_narrow_terminal_folds_by_itself() -> None:
    assert wrapped(PROBLEM, 20) == PROBLEM
    assert wrapped(PROBLEM, 0) == PROBLEM


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("error: x", "error"),
        ("   hint: x", "hint"),
        ("14:12:30 warning: x", "warning"),
        ("passed   image/files (1.0 s)", "passed"),
        ("[ 3/14] failed   image/files (1.0 s)", "failed"),
        ("00:33:37 [ 1/14] skipped  a/b: no GPU", "skipped"),
        ("✗ engine: none", "✗"),
    ],
)
def test_labels_and_states_have_colours_and_nothing_else_has(line: str, word: str) -> None:
    painted = coloured(f"{line}\nand: error: x\n")
    assert SEQUENCE.sub("", painted) == f"{line}\nand: error: x\n"
    assert re.findall(r"\x1b\[[0-9;]+m(.+?)\x1b\[0m", painted) == [word]


def shown(*words: str, columns: int = 60, **env: str) -> str:
    """Return what the command line writes to a real terminal."""
    command = [sys.executable, "-m", "lumicontainer", *words]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **env}
    with closing(Terminal(columns=columns)) as terminal:
        out = terminal.stream
        subprocess.run(command, stderr=out, stdout=out, env=environment, check=False)
    return terminal.text.replace("\r\n", "\n")


@pytest.mark.slow
def test_a_terminal_gets_colours_and_folded_lines() -> None:
    text = shown("show", "nothing-of-that-kind")
    assert text.startswith("\x1b[1;31merror\x1b[0m: ")
    lines = SEQUENCE.sub("", text).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("   ") for line in lines[1:])


@pytest.mark.slow
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_no_colours_where_they_are_not_wanted_or_not_there(env: dict[str, str]) -> None:
    text = shown("show", "nothing-of-that-kind", **env)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.slow
def test_a_pipe_gets_neither_colours_nor_folded_lines() -> None:
    command = [sys.executable, "-m", "lumicontainer", "show", "nothing-of-that-kind"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "60"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.slow
def test_a_document_on_a_terminal_is_neither_folded_nor_coloured() -> None:
    text = shown("render", "pytorch", "--format", "dockerfile")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) > 60


@pytest.mark.slow
def test_a_table_is_folded_in_its_last_column() -> None:
    rows = shown("list", TERM="dumb").splitlines()
    (first,) = (place for place, row in enumerate(rows) if row.startswith("  megatron-deepspeed "))
    column = rows[first].index("Megatron")
    assert rows[first + 1].startswith(" " * column)
    assert rows[first + 1][column] != " "
    assert max(map(len, rows)) <= 60


@pytest.mark.slow
def test_what_is_shown_of_a_layer_is_folded_below_its_beginning() -> None:
    text = shown("show", "pytorch", "--platform", "workstation", TERM="dumb")
    rows = text.splitlines()
    first = rows.index("  left out: ROCm drives AMD's GPUs, and this platform has")
    assert rows[first + 1] == "            none"
    assert "recipes/layers/debian/layer.yaml" in text
