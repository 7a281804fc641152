"""What the golden tests share."""

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ..conftest import ROOT

HERE = Path(__file__).parent

Golden = Callable[[str, str], None]

FILES = [
    path
    for folder in ("recipes", "lumicontainer/step")
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and path.suffix != ".pyc"
]

_PROGRAM = re.compile(r"(?<=<<<\\\n)(.*?)(?= \\\n    && bash)", re.DOTALL)
"""A step's program in a Dockerfile, in base64."""


def texts() -> dict[str, Path]:
    """Return the files of more than one line by their text, the longest first."""
    found = {path.read_text(): path.relative_to(ROOT) for path in FILES}
    return {text: found[text] for text in sorted(found, key=len, reverse=True) if "\n" in text[:-1]}


def named(document: str) -> str:
    """Replace each file of this repository in a document by its name."""
    for text, path in texts().items():
        document = document.replace(f"\n{text}", f"\n[{path}]\n")
    return document


def programs(dockerfile: str) -> list[str]:
    """Return what the steps of a Dockerfile run."""
    coded = (text.replace("\\\n", "") for text in _PROGRAM.findall(dockerfile))
    return [base64.b64decode(text).decode() for text in coded]


def without_programs(dockerfile: str) -> str:
    """Return a Dockerfile whose programs are named as the definition's."""
    return _PROGRAM.sub("[the definition's]", dockerfile)


@pytest.fixture
def is_golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the file beside this one."""

    def compare(text: str, name: str) -> None:
        golden = HERE / name
        if request.config.getoption("--update-golden"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text)
        assert text == golden.read_text()

    return compare
