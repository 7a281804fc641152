"""Read files of other tools as drafts of recipes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.read import reader_of

Import = Callable[..., Draft]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Return the draft of a file with a text, beside other files of the same folder."""

    def read(name: str, text: str, **others: str) -> Draft:
        for file, content in {name: text, **others}.items():
            (tmp_path / file).write_text(content, newline="")
        draft = Draft(tmp_path, Goal("cpu", "debian bookworm", "3.11"), "mine")
        reader_of(Path(name))(draft, name)
        return draft

    return read


@pytest.fixture
def dockerfile(imported: Import) -> Import:
    """Return the draft of a Dockerfile whose first line is ``FROM debian``."""

    def read(text: str, **others: str) -> Draft:
        return imported("Dockerfile", f"FROM debian\n{text}\n", **others)

    return read


def rows(draft: Draft) -> list[tuple[int, str, str]]:
    """Return the line, the outcome and the text of what became of a file, but for FROM."""
    outcomes = ((each.line, each.outcome, each.text) for each in draft.lines)
    return [each for each in outcomes if not each[2].startswith("FROM")]


def notes(draft: Draft) -> list[str]:
    """Return why lines are not carried over."""
    return [each.note for each in draft.lines if each.outcome == "not carried"]
