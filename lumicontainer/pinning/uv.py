"""Find the wheels for an image by uv, which takes a tenth of pip's time, else by pip.

Uv decides for the Python, the glibc and the markers of the image. It takes indexes, proxies,
certificates and constraints from pip's configuration: pip would decide the same.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from packaging.markers import Environment
from packaging.pylock import PackageWheel, PylockSelectError
from packaging.requirements import Requirement
from packaging.version import Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.host.site import pip_settings
from lumicontainer.host.uv import Sources, find_uv, write_stand_in
from lumicontainer.packages.pylock import PylockError, read_pylock
from lumicontainer.packages.uv_messages import without_progress
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.wheels import Query, Target, Wheel, with_extras
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import temporary_folder

_OPTIONS = (
    *("pip", "compile", "--format", "pylock.toml", "--no-header"),
    # As pip does: the best version of all indexes.
    *("--no-python-downloads", "--index-strategy", "unsafe-best-match"),
)
_WHEELS = ("--no-config", "--no-build")
"""Metadata is read, never built: a package needs a wheel."""
_TRIED = re.compile(r"(?m)^DEBUG Searching for a compatible version of (\S+) \((.+)\)$")
"""How uv logs which versions of a package it looks for (uv 0.7 to 0.13)."""


class Resolver:
    """Resolve the Python packages of one image, and report by which program."""

    def __init__(self, target: Target, say: Callable[[str], None]) -> None:
        self.pip = Pip(target)
        self._uv, self._say = find_uv(), say
        slower = "pip: uv not found; it is faster: pip install uv"
        self._say(f"resolver of Python packages: {self._uv or slower}")

    def wheels(self, query: Query) -> list[Wheel]:
        """Return the wheels of requirements and of all that they need; see ``Pip.wheels``.

        If uv fails, pip decides: an index may be unreachable, and ``build`` explains the messages
        of pip only. Pip also decides which pre-releases are allowed, as it does in ``build``.
        """
        if self._uv:
            try:
                chosen = wheels(self._uv, self.pip.target, query)
                if not any(Version(each.version).is_prerelease for each in chosen):
                    return chosen
            except process.ProgramError as error:
                names = ", ".join([*query.requirements[:3], *["…"][: len(query.requirements) > 3]])
                why = " ".join(error.problems[0].why.split()).removeprefix("error: ")
                self._say(f"note: pip resolves {names}, because uv failed: {why}")
        return self.pip.wheels(query)

    def source_in_the_way(self, query: Query, wheels: Sequence[Wheel]) -> str:
        """Return a source that a newer version of one of the ``wheels`` needs; empty if none does.

        Wheels alone fit together then, too, but in older versions.
        """
        return source_in_the_way(self._uv, self.pip.target, query, wheels) if self._uv else ""


def wheels(program: Path, target: Target, query: Query) -> list[Wheel]:
    """Return what ``Pip.wheels`` does; raise ``ProgramError`` if no wheels fit together."""

    def resolve(query: Query) -> tuple[list[Wheel], str]:
        with _asking(program, target, query) as (uv, words):
            sources = Sources(uv.settings, query.index)
            chosen, printed = uv.compile([*sources.together(), *query.requirements], *words)
            each = sources.each()
            best = uv.best_files(chosen, each) if len(each) > 1 and chosen else chosen
            return best, printed

    return with_extras(query, resolve)


def source_in_the_way(program: Path, target: Target, query: Query, wheels: Sequence[Wheel]) -> str:
    """Return what ``Resolver.source_in_the_way`` does."""
    with _asking(program, target, query) as (uv, words):
        sources = Sources(uv.settings, query.index).together()
        lines = [*sources, *query.requirements]
        log = uv.run(lines, *_WHEELS, "--verbose", *words).stderr
        chosen = {normal(each.name): each.version for each in wheels}
        for name, versions in dict(reversed(_TRIED.findall(log))).items():
            if normal(name) not in {*chosen, *query.present, *query.same}:
                line = str(name) if versions == "*" else f"{name}{versions}"
                if uv.newest(sources, [line]) != uv.newest(sources, [line], "--no-build"):
                    return str(name)
        return _newer_source(uv, sources, query.requirements, chosen, words)


def _newer_source(
    uv: "_Uv",
    sources: Sequence[str],
    requirements: Sequence[str],
    chosen: Mapping[str, str],
    words: Sequence[str],
) -> str:
    """Return a chosen package that has a newer version without a wheel, which fits the others."""
    wheels = uv.newest(sources, [*requirements, *chosen], "--no-build", *words)
    newest = uv.newest(sources, [*requirements, *chosen], *words)
    for name, version in newest.items():
        if name in chosen and version not in (chosen[name], wheels.get(name, version)):
            pinned = [f"{n}=={v}" for n, v in {**chosen, name: version}.items()]
            if uv.newest(sources, [*requirements, *pinned], *words):
                return name
    return ""


@contextmanager
def _asking(program: Path, target: Target, query: Query) -> Iterator[tuple["_Uv", list[str]]]:
    """Yield uv in a folder with the packages of the image, and the options of the constraints."""
    settings = pip_settings()
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        uv = _Uv(program, target, Path(folder).resolve(), settings, brief=bool(query.index))
        files = [*settings.get("constraint", "").split(), query.write_constraints(uv.folder)]
        yield uv, [f"--constraints={each}" for each in files]


@dataclass(frozen=True)
class _Uv:
    program: Path
    target: Target
    folder: Path
    settings: Mapping[str, str]
    brief: bool

    def compile(self, lines: Sequence[str], *words: str) -> tuple[list[Wheel], str]:
        """Return the wheels that lines of requirements resolve to, and what uv printed.

        Stand-ins are left out.
        """
        done = self.run(lines, *_WHEELS, *words)
        if done.returncode:
            raise process.ProgramError(["uv"], done.returncode, without_progress(done.stderr))
        chosen, own = read_lock(self._lock.read_text(), self.target), f"{self.folder.as_uri()}/"
        return [each for each in chosen if not each.url.startswith(own)], done.stderr

    def newest(
        self, sources: Sequence[str], requirements: Sequence[str], *words: str
    ) -> dict[str, str]:
        """Return the newest versions, by name, that requirements allow; empty if there are none.

        A source counts, too. Uv builds no source, because settings declare all without
        dependencies.
        """
        named = [each for each in map(Requirement, requirements) if not each.url]
        names = {f'[[dependency-metadata]]\nname = "{normal(each.name)}"\n' for each in named}
        settings = self.folder / "uv.toml"
        settings.write_text("".join(sorted(names)))
        words = ("--quiet", "--no-deps", "--config-file", str(settings), *words)
        if self.run([*sources, *map(str, named)], *words).returncode:
            return {}
        try:
            packages = read_pylock(self._lock.read_text()).packages
        except PylockError:
            return {}
        return {each.name: str(each.version) for each in packages if each.version}

    def run(self, lines: Sequence[str], *words: str) -> process.Finished:
        """Run uv; its answer is in a file of the folder."""
        requirements = self.folder / "wanted.txt"
        requirements.write_text(
            "".join(f"{line}\n" for line in [*lines, f"--find-links {self.folder}"])
        )
        self._lock.unlink(missing_ok=True)
        command = [str(self.program), *_OPTIONS, *words, "--python", sys.executable]
        command += ["--python-version", self.target.python]
        command += ["--python-platform", self.target.uv_platform()]
        command += ["--output-file", str(self._lock), str(requirements)]
        return process.in_new_session(command, env=self._environment(), limits=budget.RESOLVE)

    @property
    def _lock(self) -> Path:
        return self.folder / "pylock.toml"

    def best_files(self, chosen: Sequence[Wheel], sources: Sequence[Sequence[str]]) -> list[Wheel]:
        """Return the wheels with the best file of each version in all sources.

        Uv takes a version from the first index that has it. Pip compares the files of all indexes,
        and of two equal files it takes the last index's.
        """
        for each in chosen:
            write_stand_in(self.folder, each.name, "0")
        lines = [f"{each.name}<={each.version.partition('+')[0]}" for each in chosen]
        order = {tag: number for number, tag in enumerate(self.target.tags())}
        best: dict[tuple[str, str], tuple[int, Wheel]] = {}
        for source in reversed(sources):
            for each in self.compile([*source, *lines], "--no-deps")[0]:
                rank = min(order[tag] for tag in each.tags if tag in order)
                known = best.setdefault((each.name, each.version), (rank, each))
                if rank < known[0]:
                    best[each.name, each.version] = (rank, each)
        return [best.get((each.name, each.version), (0, each))[1] for each in chosen]

    def _environment(self) -> dict[str, str]:
        own = {name for name in os.environ if name.startswith("UV_")} - {"UV_CACHE_DIR"}
        variables = {name: value for name, value in os.environ.items() if name not in own}
        variables |= {"TMPDIR": str(self.folder), "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
        if cert := self.settings.get("cert"):
            variables["SSL_CERT_FILE"] = cert
        if proxy := self.settings.get("proxy"):
            variables |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
        if self.brief:  # An index of a layer may be out of reach.
            variables |= {"UV_HTTP_TIMEOUT": "15", "UV_HTTP_RETRIES": "1"}
        elif seconds := self.settings.get("timeout"):
            variables["UV_HTTP_TIMEOUT"] = seconds
        return variables


def read_lock(text: str, target: Target) -> list[Wheel]:
    """Return the wheels that a pylock.toml (PEP 751) selects; raise ``ProgramError`` otherwise."""
    chosen = []
    environment = cast(Environment, target.environment())
    try:
        lock = read_pylock(text)
        for package, file in lock.select(environment=environment, tags=target.tags()):
            if not isinstance(file, PackageWheel) or not file.url:
                raise PylockSelectError(f"{package.name} has no wheel")
            sha256 = file.hashes.get("sha256", "")
            chosen.append(Wheel(package.name, str(package.version), sha256, file.url))
    except (PylockError, PylockSelectError) as error:
        raise process.ProgramError(["uv"], 0, str(error)) from error
    return chosen
