"""Each command of the manual is run as a reader would paste it, and prints what is shown there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.places import cache_root

from ..conftest import ROOT
from ..documents import CODE, DOCUMENTS, NOT_COMPARED, Block, blocks
from .conftest import run

BINARY = Path(sys.executable).parent
HOME = "/home/you"
"""What documents call the folder that a reader works in."""
TRAIN = """\
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:])
"""
"""A reader's own program: what it trains is not the manual's matter."""
_DIVIDER = "\x1e"
"""Stands between what commands print and their exit codes."""
_VARYING = (
    (re.compile(r"\b(?=\w*\d)[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*[.,:]?"), "#"),
    (re.compile(r"# (?:[kKMGT]?i?B|ms|s|min|h)\b"), "# UNIT"),
    (re.compile(r"\s+"), " "),
)
_ENGINE = re.compile("INFO: ")
"""What an engine says of a host."""


def checkout(folder: Path) -> Path:
    """Copy what git knows of this checkout into a folder, as a clone of it has it."""
    listed = run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def folder(tmp_path: Path, image: Path) -> Path:
    """Return a clone with a reader's program, and the image that the first commands build."""
    made = checkout(tmp_path / "you")
    shutil.copy(image, made / image.name)
    (made / "train.py").write_text(TRAIN)
    return made


@pytest.fixture
def reader(tmp_path: Path, folder: Path, cluster: dict[str, str]) -> dict[str, str]:
    """Return the environment of a reader who has the command, pytest and Slurm."""
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    command = programs / "lumicontainer"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} -m lumicontainer "$@"\n'
    )
    command.chmod(0o755)
    (programs / "pytest").symlink_to(BINARY / "pytest")
    (home / ".config").mkdir(parents=True)
    pip = Path("~/.config/pip").expanduser()
    if pip.exists():
        (home / ".config/pip").symlink_to(pip)
    return {
        **cluster,
        "HOME": str(home),
        "LUMICONTAINER_CACHE": str(cache_root()),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
    }


def outputs(block: Block, folder: Path, reader: dict[str, str]) -> list[tuple[str, int]]:
    """Run the commands of a block in one shell; return what each printed, and its exit code."""
    script = "".join(
        f"{each.text}\nprintf '{_DIVIDER}%d{_DIVIDER}' $?\n" for each in block.commands
    )
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder,
        env={**os.environ, **reader},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    texts = f"{done.stdout}{_DIVIDER}{done.returncode}".split(_DIVIDER)
    return [(text, int(code)) for text, code in zip(texts[::2], texts[1::2], strict=True)]


def normal(text: str, folder: Path) -> str:
    """Return a line without what differs between two hosts, or two times."""
    text = text.replace(str(folder), HOME)
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return text.strip()


def matches(shown: tuple[str, ...], printed: str, folder: Path) -> bool:
    """Tell whether lines are those that are shown, in which an ellipsis stands for anything."""
    pattern = "" if shown else "(?s:.*)"
    for line in filter(str.strip, shown):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            parts = [re.escape(normal(part, folder)) for part in line.split("…")]
            pattern += r"\s?.*\s?".join(parts).strip() + r"\n"
    lines = (line for line in printed.splitlines() if line.strip() and not _ENGINE.match(line))
    told = "".join(f"{normal(line, folder)}\n" for line in lines)
    return re.fullmatch(pattern, told) is not None


def faults(block: Block, folder: Path, reader: dict[str, str]) -> list[str]:
    """Run a block, or write it where it is a file; return what is not as the document says."""
    if block.name and not block.name.startswith("~"):
        path = folder / block.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
    if not block.is_run:
        return []
    found, ends = [], [0] * (len(block.commands) - 1) + [int(block.said.get(CODE, 0))]
    for command, end, (text, code) in zip(
        block.commands, ends, outputs(block, folder, reader), strict=False
    ):
        what = f"{block}\n$ {command.text}\n{text}"
        if code != end:
            found.append(f"ended with {code}, not {end}: {what}")
        elif NOT_COMPARED not in block.said and not matches(command.printed, text, folder):
            found.append(f"printed otherwise than is shown: {what}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_reader_pastes_works_and_prints_what_is_shown(
    document: Path, folder: Path, reader: dict[str, str]
) -> None:
    found = [fault for block in blocks(document) for fault in faults(block, folder, reader)]
    assert not found, "\n\n".join(found)
