"""Fixtures of the golden tests."""

import base64
import hashlib
import re
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest

from ..conftest import ROOT

HERE = Path(__file__).parent

Golden = Callable[[str, str], None]

_PROGRAM = re.compile(r"RUN (base64 -d >\S+ <<<)\\\n(.*?) \\\n    (&& bash [^\n]*)\n", re.DOTALL)
"""A step of a Dockerfile: its program in base64, between the commands that run it."""

_FILE = re.compile(r"cat >(\S+) <<'(END_OF_FILE\S*)'\n(.*?)\2\nchmod (\d+) \1\n", re.DOTALL)


def texts() -> dict[str, Path]:
    """Return this repository's files of more than one line by their text, the longest first."""
    folders = (ROOT / "recipes", ROOT / "lumicontainer/step")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    names = {path.read_text(): path.relative_to(ROOT) for path in paths if path.suffix != ".pyc"}
    return {text: names[text] for text in sorted(names, key=len, reverse=True) if "\n" in text[:-1]}


def named(definition: str) -> str:
    """Shorten a definition by what is written elsewhere too.

    A file of this repository is written as its name, a file's own digest is left out, the variables
    of a layer are written as their difference from the layer before, and a run of lines that
    ``hello.def`` has too as its first and last line, with the number of those between.
    """
    names = texts()
    steps, before = [], ""
    for part in re.split(r"(?m)^(?=# layer: )", definition):
        step = part
        for path, _, text, mode in _FILE.findall(step):
            digest = f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n"
            content = f" [{names[text]}]\n" if text in names else f":\n{text}"
            if path.endswith("/values.sh"):
                content, before = f":\n{changes(before, text)}", text
            content = f"{mode if digest in step else 'no digest'} {path}{content}"
            step = _FILE.sub(lambda _, content=content: content, step.replace(digest, ""), 1)
        steps.append(step.replace("<<'SHA256'\nSHA256\n", "<<…\n"))
    document = "".join(steps)
    for text, path in names.items():
        document = document.replace(f"\n{text}", f"\n[{path}]\n")
    return shortened(document.splitlines(), (HERE / "hello.def").read_text().splitlines())


def changes(before: str, text: str) -> str:
    """Return the names of variables that are gone, and the lines of those that are new."""
    was, now = (text.splitlines() for text in (before, text))
    kept = {line.partition("=")[0] for line in now}
    gone = [f"-{name}" for line in was if (name := line.partition("=")[0]) not in kept]
    return "".join(f"{line}\n" for line in (*gone, *(line for line in now if line not in was)))


def shortened(lines: list[str], known: list[str]) -> str:
    """Write a run of four or more known lines, none of them empty, as its first and last."""
    written, at = "", 0
    while at < len(lines):
        rests = (known[start:] for start, line in enumerate(known) if line == lines[at])
        pairs = (zip(lines[at:], rest, strict=False) for rest in rests)
        alike = (takewhile(lambda pair: pair[0] == pair[1] != "", each) for each in pairs)
        count = max((len([*each]) for each in alike), default=0)
        if count < 4:
            count, kept = 1, lines[at : at + 1]
        else:
            kept = [lines[at], f"… {count - 2}", lines[at + count - 1]]
        written += "".join(f"{line}\n" for line in kept)
        at += count
    return written


def programs(dockerfile: str) -> list[str]:
    """Return what the steps of a Dockerfile run."""
    coded = (text.replace("\\\n", "") for _, text, _ in _PROGRAM.findall(dockerfile))
    return [base64.b64decode(text).decode() for text in coded]


def without_programs(dockerfile: str) -> str:
    """Return a Dockerfile without its programs, which the definition holds."""
    return _PROGRAM.sub(r"RUN \1… \3\n", dockerfile)


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
