"""Resolve what an extension adds to an image; the image's packages stay as they are."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from packaging.pylock import Pylock
from packaging.requirements import Requirement
from packaging.version import Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.extending.container import Container, Mounts
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.lock.relock import read_answer, read_pins, require_pinned_files
from lumicontainer.host.uv import STAND_IN, Sources, write_stand_in
from lumicontainer.packages.uv_messages import (
    MissingExtra,
    missing_extras,
    needs_image,
    unbuilt_sources,
    without_progress,
)
from lumicontainer.system import process
from lumicontainer.system.terminal.output import clean

_COMPILE = ("pip", "compile", "--python", "python3", "--format", "pylock.toml", "--no-header")
_BEST = ("--index-strategy", "unsafe-best-match")
_FIRST = ("--index-strategy", "first-index")
_MOST_SOURCES = 20
"""The most sources that are built with the packages of the image."""


class Question(NamedTuple):
    """Hold what a user wants, as lines of requirements, and what of the image may change."""

    lines: Sequence[str]
    changeable: frozenset[str] = frozenset()
    named: Sequence[str] = ()
    """The lines of the user, if files with their hashes stand for sources in ``lines``."""

    def kept(self, facts: Facts) -> list[str]:
        """Return the packages of the image that stay."""
        return [name for name in facts.packages if name not in self.changeable]


_HEAD, _TAIL = 1 << 16, 1 << 20
"""Characters of the beginning and of the end of a message."""


class Refusal(process.ProgramError):
    """No versions fit together, or uv cannot know it; ``text`` is its message.

    A build decides what is in the message: one that is too long is cut in the middle.
    """

    def __init__(self, status: int, printed: str) -> None:
        super().__init__(["uv"], status, printed)
        text = without_progress(clean(printed)).strip()
        is_long = len(text) > _HEAD + _TAIL
        self.text = f"{text[:_HEAD]} … {text[-_TAIL:]}" if is_long else text

    def ended_early(self) -> bool:
        """Return whether uv was ended before it could say why; its own codes are 1 and 2."""
        return not self.text or self.status not in (0, 1, 2)

    def needing_image(self) -> set[str]:
        """Return the sources whose build fails because it needs packages of the image."""
        return {name for _, name in unbuilt_sources(self.text)} if needs_image(self.text) else set()


class Resolution:
    """Ask uv in a container of an image."""

    def __init__(
        self, container: Container, facts: Facts, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self.container, self.facts, self._say = container, facts, say
        self._sources = Sources(container.site.pip, "").together()
        self._built = False
        self._with_image: set[str] = set()
        """The sources that are built with the packages of the image."""
        self.missing_extras: list[MissingExtra] = []
        """The extras without a meaning in the last question."""
        self._early: set[str] = set()
        """The packages that have pre-releases only."""

    def lock(self, question: Question) -> Pylock:
        """Return a lock of what is added.

        Sources take part: the container builds their metadata. Raises ``Refusal`` if nothing fits.
        """
        leave_out = [f"--no-emit-package={name}" for name in question.kept(self.facts)]
        return self._relock(question, self.solve(question, *leave_out))

    def solve(self, question: Question, *words: str) -> Pylock:
        """Return what ``compile`` does, without pre-releases that nobody asks for.

        Those of packages without another release are allowed: others depend on such versions.
        """
        chosen = self.compile(question, *words)
        early = {n for n, v in self.versions(chosen).items() if Version(v).is_prerelease}
        finished = {name for name in early if self._has_release(name)}
        if not finished:
            return chosen
        self._early = {*self._early, *(early - finished)}
        return self.compile(question, "--prerelease", "explicit", *words)

    def compile(self, question: Question, *words: str) -> Pylock:
        """Return the lock that uv prints in a container where code of sources may run."""
        self._prepare_code(question)
        self._say("choose versions; sources are built to see what they need")
        while True:
            try:
                return read_answer(self._compile(question, *words))
            except Refusal as refusal:
                names = refusal.needing_image()
                if names <= self._with_image or len(self._with_image) > _MOST_SOURCES:
                    raise
                self._with_image |= names

    def name_source(self, file: Path) -> str:
        """Return the name of a source that only its code knows: its metadata is built.

        Raises ``Refusal`` if that fails.
        """
        self._say("build what says the name of a source")
        question = Question([file.as_uri()], frozenset(self.facts.packages))
        try:
            lock = self.compile(question, "--no-deps")
        except Refusal as refusal:
            if not needs_image(refusal.text):
                raise
            lock = self.compile(question, "--no-deps", "--no-build-isolation")
        names = [each.name for each in lock.packages]
        if len(names) != 1:
            raise Refusal(0, f"its metadata names {len(names)} packages")
        return names[0]

    def newest(self, lines: Sequence[str]) -> dict[str, str]:
        """Return the newest versions that requirements allow, by name; a source counts, too.

        Nothing is built. Raises ``Refusal`` if one has no version that is not a pre-release.
        """
        return self.versions(self.find_newest(lines))

    def why_absent(self, name: str) -> str:
        """Return why the first index with an answer about a package has no version of it, or "".

        Of all indexes together, uv passes over those that refuse access, and does not say so.
        """
        try:
            self.find_newest([name], _FIRST)
        except Refusal as refusal:
            return refusal.text
        return ""

    def find_newest(self, lines: Sequence[str], strategy: Sequence[str] = _BEST) -> Pylock:
        """Return a lock of the newest versions that requirements allow; see ``newest``."""
        self._say("look up the newest versions")
        inputs = self.container.part("newest")
        settings = inputs / "uv.toml"
        names = [normal(Requirement(each).name) for each in lines]
        settings.write_text("".join(f'[[dependency-metadata]]\nname = "{n}"\n' for n in names))
        words = ["--no-deps", "--prerelease", "explicit", "--config-file", str(settings)]
        mounts = Mounts(self.container.part("newest-files"), (inputs,))
        return read_answer(self._run(mounts, lines, *words, strategy=strategy))

    def versions(self, lock: Pylock) -> dict[str, str]:
        """Return the versions in a lock, by name, without the image's packages."""
        lines = read_pins(lock, (), self.container.code).lines
        parts = (line.partition("==") for line in lines if STAND_IN not in line)
        return {name: version for name, _, version in parts}

    def _prepare_code(self, question: Question) -> None:
        """Let uv ask the user's own code what it needs; later, nothing can change the code."""
        own = [line for line in question.lines if line.startswith("-e ")]
        if own and not self._built:
            with suppress(Refusal):
                self._compile(question._replace(lines=own), "--no-deps", "--no-build")

    def _has_release(self, name: str) -> bool:
        """Return whether a package has a version that is not a pre-release."""
        try:
            return bool(self.newest([name]))
        except Refusal:
            return False

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
        known = self._stand_ins(question, folder)
        early = [f"{name}>=0.dev0" for name in sorted(self._early)]
        write_lines(inputs / "constraints.txt", [*known, *early])
        # A build cannot use PyTorch of an index: it has to be the image's.
        fixed = [each for each in known if each.partition("==")[0] in self.facts.protected()]
        write_lines(inputs / "build.txt", fixed)
        options = [f"--constraints={inputs / 'constraints.txt'}"]
        options += [f"--build-constraints={inputs / 'build.txt'}", "--no-config"]
        options += [f"--no-build-isolation-package={each}" for each in sorted(self._with_image)]
        mounts = self._mounts(inputs, builds="--no-build" not in words)
        return self._run(mounts, lines, *options, *words, quiet=False)

    def _mounts(self, inputs: Path, *, builds: bool) -> Mounts:
        """Return what a container sees that builds sources, or the user's own code alone.

        The user's code comes first, and the cache keeps what uv must know of it. The code is
        read-only when sources of others are built, and in later containers with the same cache.
        """
        code, self._built = self.container.code, self._built or builds
        writes = self.container.part("sources" if builds or code else "wheels")
        return Mounts(writes, (inputs, *code)) if self._built else Mounts(writes, (inputs,), code)

    def _relock(self, question: Question, lock: Pylock) -> Pylock:
        """Return a lock with the same versions, from a container in which no code ran."""
        self._say("look up the files of the chosen versions")
        pins = read_pins(lock, question.named or question.lines, self.container.code)
        inputs = self.container.part("pins")
        settings = inputs / "uv.toml"
        settings.write_text(pins.settings)
        words = ["--no-deps", "--config-file", str(settings)]
        mounts = Mounts(self.container.part("files"), (inputs,))
        answer = read_answer(self._run(mounts, pins.lines, *words))
        require_pinned_files(answer, pins, self.container.named_folders())
        return replace(answer, packages=[*answer.packages, *pins.own])

    def _run(
        self,
        mounts: Mounts,
        lines: Iterable[str],
        *words: str,
        strategy: Sequence[str] = _BEST,
        quiet: bool = True,
    ) -> str:
        """Return the lock of lines of requirements; raise ``Refusal`` if uv finds none.

        Unless it is ``quiet``, uv warns of extras.
        """
        requirements = mounts.reads[0] / "wanted.txt"
        write_lines(requirements, [*self._sources, *lines])
        command = (*_COMPILE, *strategy, *words, str(requirements))
        done = self.container.uv(mounts, *command, quiet=quiet)
        if done.returncode:
            raise Refusal(done.returncode, done.stderr)
        if not quiet:
            self.missing_extras = missing_extras(done.stderr)
        return done.stdout

    def _users(self, name: str, question: Question) -> Iterable[str]:
        users = self.facts.users(name) if name in self.facts.packages else ()
        return (user for user in users if user not in question.changeable)

    def _stand_ins(self, question: Question, folder: Path) -> list[str]:
        facts = self.facts
        rows = ((name, facts.packages[name].version) for name in question.kept(facts))
        return [
            write_stand_in(folder, *row, [*facts.needs(row[0]).values()], facts.extras(row[0]))
            for row in rows
        ]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of requirements."""
    path.write_text("".join(f"{line}\n" for line in lines))
