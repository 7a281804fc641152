"""Resolve what an extension adds to an image; the image's packages stay as they are."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.extending.container import Container
from lumicontainer.extending.facts import Facts
from lumicontainer.host.uv import Sources, write_stand_in
from lumicontainer.system import process

_COMPILE = ("pip", "compile", "--python", "python3", "--index-strategy", "unsafe-best-match")
_NO_WHEEL = re.compile(r"(?:all versions of \S+ have|\S+==\S+ has) no usable wheels")
"""How uv reports that a package has no wheel for the image in any version, or in the wanted one."""


class Question(NamedTuple):
    """Hold what a user wants, as lines of requirements, and what of the image may change."""

    lines: Sequence[str]
    changeable: frozenset[str] = frozenset()

    def kept(self, facts: Facts) -> list[str]:
        """Return the packages of the image that stay."""
        return [name for name in facts.packages if name not in self.changeable]


class Resolution:
    """Ask uv in a container of an image."""

    def __init__(self, container: Container, facts: Facts) -> None:
        self.container, self.facts = container, facts
        self._sources = Sources(container.site.pip, "").together()

    def lock(self, question: Question, *, sources: bool = False) -> str:
        """Return the text of a pylock.toml (PEP 751) with what is added.

        A source is built, in the container, only where a package has no wheel. The lock names the
        sources of all packages with ``sources`` or where one is built.
        Raises ``ProgramError`` if nothing fits.
        """
        path = self.container.folder / "pylock.toml"
        path.unlink(missing_ok=True)
        leave_out = [f"--no-emit-package={name}" for name in question.kept(self.facts)]
        words = ["--format", "pylock.toml", "--no-header", *leave_out, "--output-file", str(path)]
        ask = self._compile if sources else self.compile
        ask(question, *words)
        return path.read_text()

    def compile(self, question: Question, *words: str) -> str:
        """Return what uv prints; it builds a source only where a package has no wheel."""
        try:
            return self._compile(question, *words, "--no-build")
        except process.ProgramError as error:
            if not _NO_WHEEL.search(" ".join(error.problems[0].why.split())):
                raise
        return self._compile(question, *words)

    def _compile(self, question: Question, *words: str) -> str:
        """Return what uv prints; the image's packages are constraints unless they may change."""
        folder = self.container.folder / "image"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        constraints = folder / "constraints.txt"
        lines = self._stand_ins(question, folder)
        wanted = self.container.folder / "wanted.txt"
        # What uses a changed package must still find what it needs.
        users = {user for name in question.changeable for user in self._users(name, question)}
        _write(wanted, [*self._sources, f"--find-links {folder}", *question.lines, *sorted(users)])
        _write(constraints, lines)
        options = ["--no-build-isolation", *words]
        command = [*_COMPILE, *options, "--constraints", str(constraints), str(wanted)]
        done = self.container.uv(*command)
        if done.returncode:
            raise process.ProgramError(["uv"], done.returncode, done.stderr)
        return done.stdout

    def _users(self, name: str, question: Question) -> Iterable[str]:
        users = self.facts.users(name) if name in self.facts.packages else ()
        return (user for user in users if user not in question.changeable)

    def _stand_ins(self, question: Question, folder: Path) -> list[str]:
        packages = self.facts.packages
        return [
            write_stand_in(folder, name, packages[name].version, [*self.facts.needs(name).values()])
            for name in question.kept(self.facts)
        ]


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
