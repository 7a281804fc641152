"""Find the wheels for an image by uv, which takes a tenth of pip's time.

Uv decides for the Python, the glibc and the markers of the image. It takes indexes, proxies and
certificates from pip's configuration: the image's pip installs from the same places.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from packaging.markers import Environment
from packaging.pylock import PackageWheel, Pylock, PylockSelectError, PylockValidationError

from lumicontainer.build.workspace import temporary_folder
from lumicontainer.host.site import pip_settings
from lumicontainer.pinning.wheels import Query, Target, Wheel, write_stand_in
from lumicontainer.system import process

_OPTIONS = (
    *("pip", "compile", "--format", "pylock.toml", "--no-config", "--no-header", "--quiet"),
    # Metadata is read, never built: a package needs a wheel.
    *("--no-build", "--no-python-downloads"),
    # As pip does: the best version of all indexes.
    *("--index-strategy", "unsafe-best-match"),
)
_TRUE = ("1", "true", "yes", "on", "y", "t")
"""The words by which pip switches an option on."""


def find_uv() -> Path | None:
    """Return the uv of this Python's environment, else that of PATH; None where there is none."""
    own = Path(sys.executable).with_name("uv")
    return own if own.is_file() else process.find("uv")


def wheels(program: Path, target: Target, query: Query) -> list[Wheel]:
    """Return the wheels of requirements and of all that they need, as ``Pip.wheels`` does.

    Raises ``ProgramError`` if uv finds none that fit together.
    """
    settings = pip_settings()
    sources = _Sources(settings, query.index)
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        uv = _Uv(program, target, Path(folder).resolve(), settings, brief=bool(query.index))
        constraints = query.write_constraints(uv.folder)
        lines = [*sources.together(), *query.requirements]
        found = uv.compile(lines, "--constraints", str(constraints))
        each = sources.each()
        return uv.best_files(found, each) if len(each) > 1 and found else found


@dataclass(frozen=True)
class _Uv:
    """Run uv for a target, with a folder for its files and for stand-ins."""

    program: Path
    target: Target
    folder: Path
    settings: Mapping[str, str]
    brief: bool

    def compile(self, lines: Sequence[str], *words: str) -> list[Wheel]:
        """Return the wheels that lines of requirements resolve to, without stand-ins."""
        wanted, lock = self.folder / "wanted.txt", self.folder / "pylock.toml"
        wanted.write_text("".join(f"{line}\n" for line in [*lines, f"--find-links {self.folder}"]))
        lock.unlink(missing_ok=True)
        command = [
            *(str(self.program), *_OPTIONS, *words, "--python", sys.executable),
            *("--python-version", self.target.python),
            *("--python-platform", self.target.uv_platform()),
            *("--output-file", str(lock), str(wanted)),
        ]
        done = process.finished(command, env=self._environment())
        if done.returncode:
            raise process.ProgramError(["uv"], done.returncode, done.stderr)
        own = f"{self.folder.as_uri()}/"
        found = read_lock(lock.read_text(), self.target)
        return [each for each in found if not each.url.startswith(own)]

    def best_files(self, found: Sequence[Wheel], sources: Sequence[Sequence[str]]) -> list[Wheel]:
        """Return the wheels with the best file of each version in all sources.

        Uv takes a version from the first index that has it. Pip compares the files of all indexes,
        and of two equal ones it takes that of the last index.
        """
        for each in found:
            write_stand_in(self.folder, each.name, "0")
        lines = [f"{each.name}<={each.version.partition('+')[0]}" for each in found]
        files = [
            each
            for source in reversed(sources)
            for each in self.compile([*source, *lines], "--no-deps")
        ]
        order = {tag: number for number, tag in enumerate(self.target.tags())}
        return [
            min(
                (file for file in files if (file.name, file.version) == (each.name, each.version)),
                key=lambda file: min(order[tag] for tag in file.tags if tag in order),
                default=each,
            )
            for each in found
        ]

    def _environment(self) -> dict[str, str]:
        own = {name for name in os.environ if name.startswith("UV_")} - {"UV_CACHE_DIR"}
        found = {name: value for name, value in os.environ.items() if name not in own}
        found |= {"TMPDIR": str(self.folder), "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
        if cert := self.settings.get("cert"):
            found["SSL_CERT_FILE"] = cert
        if proxy := self.settings.get("proxy"):
            found |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
        if self.brief:  # An index of a layer may be out of reach.
            found |= {"UV_HTTP_TIMEOUT": "15", "UV_HTTP_RETRIES": "1"}
        elif seconds := self.settings.get("timeout"):
            found["UV_HTTP_TIMEOUT"] = seconds
        return found


def read_lock(text: str, target: Target) -> list[Wheel]:
    """Return the wheels that a pylock.toml (PEP 751) selects for an image.

    Raises ``ProgramError`` where it selects anything else.
    """
    found = []
    environment = cast(Environment, target.environment())
    try:
        lock = Pylock.from_dict(tomllib.loads(text))
        for package, file in lock.select(environment=environment, tags=target.tags()):
            if not isinstance(file, PackageWheel) or not file.url:
                raise PylockSelectError(f"{package.name} has no wheel")
            sha256 = file.hashes.get("sha256", "")
            found.append(Wheel(package.name, str(package.version), sha256, file.url))
    except (tomllib.TOMLDecodeError, PylockValidationError, PylockSelectError) as error:
        raise process.ProgramError(["uv"], 0, str(error)) from error
    return found


class _Sources:
    """The options of pip's sources. They stand in a file, because URLs may hold passwords."""

    def __init__(self, settings: Mapping[str, str], index: str) -> None:
        links = settings.get("find-links", "").split()
        indexes = [*settings.get("extra-index-url", "").split(), *filter(None, [index])]
        default = settings.get("index-url", "")
        self._no_index = settings.get("no-index", "").lower() in _TRUE
        self._links = [f"--find-links {each}" for each in links]
        self._default = [f"--index-url {default}"] if default else []
        self._extra = [] if self._no_index else indexes

    def together(self) -> list[str]:
        """Return the lines of requirements that name all sources."""
        first = ["--no-index"] if self._no_index else self._default
        return [*first, *(f"--extra-index-url {each}" for each in self._extra), *self._links]

    def each(self) -> list[list[str]]:
        """Return the lines that name one source, for each source in the order of pip."""
        links = [["--no-index", *self._links]] if self._links or self._no_index else []
        default = [] if self._no_index else [self._default]
        return [*links, *default, *([f"--index-url {each}"] for each in self._extra)]
