"""Resolve what an extension adds to an image; the image's packages stay as they are."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lumicontainer.extending.container import Container, Mounts
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.lock.relock import read_pins
from lumicontainer.host.uv import Sources, write_stand_in
from lumicontainer.system import process

_COMPILE = (
    *("pip", "compile", "--python", "python3", "--no-build-isolation"),
    *("--index-strategy", "unsafe-best-match"),
)
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
        self._built = False

    def lock(self, question: Question, *, sources: bool = False) -> str:
        """Return the text of a pylock.toml (PEP 751) with what is added.

        A source is built, in the container, only where a package has no wheel. The lock names the
        sources of all packages with ``sources`` or where one is built.
        Raises ``ProgramError`` if nothing fits.
        """
        leave_out = [f"--no-emit-package={name}" for name in question.kept(self.facts)]
        words = ["--format", "pylock.toml", "--no-header", *leave_out]
        if sources:
            if self.container.code:
                with suppress(process.ProgramError):
                    self._compile(question, *words, "--no-build")
            return self._relock(question, self._compile(question, *words))
        printed, built = self._ask(question, *words)
        # The user's own code is built for its metadata, too.
        return self._relock(question, printed) if built or self.container.code else printed

    def compile(self, question: Question, *words: str) -> str:
        """Return what uv prints; it builds a source only where a package has no wheel."""
        return self._ask(question, *words)[0]

    def _ask(self, question: Question, *words: str) -> tuple[str, bool]:
        """Return what uv prints, and whether it could build sources."""
        try:
            return self._compile(question, *words, "--no-build"), False
        except process.ProgramError as error:
            if not _NO_WHEEL.search(" ".join(error.problems[0].why.split())):
                raise
        return self._compile(question, *words), True

    def _compile(self, question: Question, *words: str) -> str:
        """Return what uv prints; the image's packages are constraints unless they may change."""
        inputs = self.container.part("question")
        folder = inputs / "image"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        # What uses a changed package must still find what it needs.
        users = {user for name in question.changeable for user in self._users(name, question)}
        lines = [f"--find-links {folder}", *question.lines, *sorted(users)]
        write_lines(inputs / "constraints.txt", self._stand_ins(question, folder))
        mounts = self._mounts(inputs, builds="--no-build" not in words)
        constraints = f"--constraints={inputs / 'constraints.txt'}"
        return self._run(mounts, lines, "--no-config", constraints, *words)

    def _mounts(self, inputs: Path, *, builds: bool) -> Mounts:
        """Return what a container sees that builds sources, or the user's own code alone.

        The second one comes first, and its cache keeps what uv must know of the code. Where sources
        of others are built, and in containers with the same cache afterwards, the code cannot be
        changed.
        """
        code, self._built = self.container.code, self._built or builds
        writes = self.container.part("sources" if builds or code else "wheels")
        return Mounts(writes, (inputs, *code)) if self._built else Mounts(writes, (inputs,), code)

    def _relock(self, question: Question, lock: str) -> str:
        """Return a lock with the same versions, from a container in which no code ran."""
        pins = read_pins(lock, question.lines, self.container.code)
        inputs = self.container.part("pins")
        settings = inputs / "uv.toml"
        settings.write_text(pins.settings)
        words = ["--no-deps", "--config-file", str(settings), "--format", "pylock.toml"]
        mounts = Mounts(self.container.part("files"), (inputs,))
        return f"{self._run(mounts, pins.lines, *words, '--no-header')}{pins.own}"

    def _run(self, mounts: Mounts, lines: Iterable[str], *words: str) -> str:
        """Return what uv prints for lines of requirements; raise ``ProgramError`` if it fails."""
        wanted = mounts.reads[0] / "wanted.txt"
        write_lines(wanted, [*self._sources, *lines])
        done = self.container.uv(mounts, *_COMPILE, *words, str(wanted))
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


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of requirements."""
    path.write_text("".join(f"{line}\n" for line in lines))
