"""Run the commands of a document as its reader would, and compare what they print."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .conftest import ROOT
from .documents import BLOCKS, CODE, NOT_COMPARED, Block, Command

BINARY = Path(sys.executable).parent
HOME = "/home/you"
"""The name that documents give to the reader's folder."""
TRAIN = """\
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:])
"""
"""A reader's own program; the manual does not say what it trains."""
_DIVIDER = "\x1e"
"""Separates the output of commands from their exit codes."""
_VARYING = (
    (re.compile(r"\b(?=\w*\d)[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*[.,:]?"), "#"),
    (re.compile(r"# (?:[kKMGT]?i?B|ms|s|min|h)\b"), "# UNIT"),
    (re.compile(r"\s+"), " "),
)
_ENGINE = re.compile("INFO: ")
"""Begins the lines that an engine prints about its host."""


@dataclass(frozen=True)
class Reader:
    """Hold the folder that a reader works in, a clone of this checkout, and the environment."""

    folder: Path
    environment: dict[str, str]

    def faults(self, document: Path) -> list[str]:
        """Run a document; return each command that does not do what is shown."""
        return [fault for block in BLOCKS[document] for fault in self._faults_of(block)]

    def _faults_of(self, block: Block) -> list[str]:
        if block.name and not block.name.startswith("~"):
            path = self.folder / block.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        if not block.is_run:
            return []
        codes = [0] * (len(block.commands) - 1) + [int(block.notes.get(CODE, 0))]
        rows = zip(block.commands, codes, self._outputs(block), strict=False)
        return [fault for row in rows if (fault := self._fault(block, *row))]

    def _fault(self, block: Block, command: Command, code: int, result: tuple[str, int]) -> str:
        printed, ended = result
        where = f"{block}\n$ {command.text}\n{printed}"
        if ended != code:
            return f"exit code {ended}, expected {code}: {where}"
        if NOT_COMPARED in block.notes or self._matches(command.printed, printed):
            return ""
        return f"output differs from what is shown: {where}"

    def _outputs(self, block: Block) -> list[tuple[str, int]]:
        """Run the commands of a block in one shell; return the output and exit code of each."""
        script = "".join(
            f"{each.text}\nprintf '{_DIVIDER}%d{_DIVIDER}' $?\n" for each in block.commands
        )
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{script}"],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        texts = f"{done.stdout}{_DIVIDER}{done.returncode}".split(_DIVIDER)
        return [(text, int(code)) for text, code in zip(texts[::2], texts[1::2], strict=True)]

    def _matches(self, shown: tuple[str, ...], printed: str) -> bool:
        """Return whether lines are those that are shown, in which an ellipsis is anything."""
        pattern = "" if shown else "(?s:.*)"
        for line in filter(str.strip, shown):
            if line.strip() == "…":
                pattern += r"(?:.*\n)*?"
            else:
                parts = [re.escape(self._normal(part)) for part in line.split("…")]
                pattern += r"\s?.*\s?".join(parts).strip() + r"\n"
        lines = (line for line in printed.splitlines() if line.strip() and not _ENGINE.match(line))
        normal = "".join(f"{self._normal(line)}\n" for line in lines)
        return re.fullmatch(pattern, normal) is not None

    def _normal(self, text: str) -> str:
        """Return a line without what differs between two hosts, or two times."""
        text = text.replace(str(self.folder), HOME)
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return text.strip()


def make_reader(folder: Path, environment: dict[str, str]) -> Reader:
    """Make a reader with a clone, a program, the command, its Python and pytest."""
    clone, programs, home = folder / "you", folder / "bin", folder / "home"
    clone.mkdir()
    # The files that git knows, as a clone has them; one may be deleted.
    listed = "git ls-files -z --cached --others --exclude-standard"
    pack = "tar --create --null --files-from - --ignore-failed-read"
    script = f'{listed} | {pack} | tar --extract --directory "$0"'
    subprocess.run(["bash", "-o", "pipefail", "-c", script, clone], cwd=ROOT, check=True)
    (clone / "train.py").write_text(TRAIN)
    (clone / ".venv").symlink_to(sys.prefix)
    programs.mkdir()
    for name, words in (("lumicontainer", "-m lumicontainer"), ("python3", "")):
        command = programs / name
        command.write_text(f'#!/bin/sh\nPYTHONPATH={clone} exec {sys.executable} {words} "$@"\n')
        command.chmod(0o755)
    (programs / "pytest").symlink_to(BINARY / "pytest")
    (home / ".config").mkdir(parents=True)
    pip = Path("~/.config/pip").expanduser()
    if pip.exists():
        (home / ".config/pip").symlink_to(pip)
    own = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    # The make that runs the tests must not be taken for the one that starts a reader's make.
    make = dict.fromkeys(("MAKEFLAGS", "MAKELEVEL", "MFLAGS"), "")
    return Reader(clone, {**environment, **own, **make})
