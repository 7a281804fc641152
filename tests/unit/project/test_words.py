"""Docstrings, comments, messages and pages use plain English."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BANNED = re.compile(
    r"\b(mend(s|ed)?|(the|a|is|are|was|were) told|upon|anew|whence|(hold|holds|held) fast)\b",
    re.IGNORECASE,
)
"""Words that the contract of the project (architecture, "Words") keeps out."""
VAGUE = re.compile(r"(What|Which|Those|That)\b")
"""Begins a sentence that does not name its subject."""
CELL = re.compile(r"(?mi)^\|(?:.*[^\\]\|)? *(what|which|those|that) [^|].*$")
OWN = "tests/unit/project/test_words.py"
SUFFIXES = (".py", ".sh", ".yaml", ".md", ".j2", ".txt")
TEXT = (tokenize.COMMENT, tokenize.STRING)


def files() -> Iterator[Path]:
    yield ROOT / "README.md"
    for folder in ("lumicontainer", "recipes", "envs", "docs", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in SUFFIXES and name != OWN:
                yield path


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file with the number of its first line: of Python no identifiers."""
    if path.suffix != ".py":
        yield 1, path.read_text()
        return
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            # From Python 3.12 on an f-string is several tokens.
            if token.type in TEXT or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
                yield token.start[0], token.string


def banned(path: Path) -> list[str]:
    name = path.relative_to(ROOT)
    if not BANNED.search(path.read_text()):
        return []
    return [
        f"{name}:{first + text.count(chr(10), 0, match.start())}: {match[0]}"
        for first, text in texts(path)
        for match in BANNED.finditer(text)
    ]


@pytest.mark.slow
def test_all_files_use_plain_words() -> None:
    assert [each for path in files() for each in banned(path)] == []


def vague(path: Path) -> list[str]:
    """Return the docstrings and other texts of a module that begin with a word for no thing."""
    name = path.relative_to(ROOT)
    return [
        f"{name}:{node.lineno}: {node.value[:40]!r}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and VAGUE.match(node.value.lstrip())
    ]


@pytest.mark.slow
def test_docstrings_and_messages_name_their_subject() -> None:
    modules = sorted((ROOT / "lumicontainer").rglob("*.py"))
    assert [each for path in modules for each in vague(path)] == []


def test_cells_of_tables_name_their_subject() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    first_cells = {
        page.name: [cell[0] for cell in CELL.finditer(page.read_text())] for page in pages
    }
    assert {name: cells for name, cells in first_cells.items() if cells} == {}
