"""Read what an extension must fit: the Python and the packages of an image."""

import contextlib
import functools
import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer import inside
from lumicontainer.core.model.requirements import marker_values
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.engines import find_engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.machine import clean_environment
from lumicontainer.host.uv import require_package
from lumicontainer.image import records, sif_format
from lumicontainer.image.records import ABSOLUTE_FOLDER, DIGEST, FLAG, LINE, TEXT, Table
from lumicontainer.system import budget, process
from lumicontainer.system.files.regular import file_state
from lumicontainer.system.files.trust import make_private_folders
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.files.write import write_whole
from lumicontainer.system.terminal.output import say

_CODE = Path(inside.__file__).parent
_PROBE = "/opt/lumicontainer/probe"
_PRINT = f"import sys; sys.path.insert(0, '{_PROBE}'); from inside.image.facts import main; main()"
_MOST = 64 << 20
"""The most bytes that an image may print about itself."""
_KEPT = 50
"""The most images whose facts are remembered, with 50 KB each."""
_PYTHON = records.Kind("a version such as 3.11", frozenset({str}), r"[0-9]\.[0-9]{1,2}")
_EXTRA = re.compile(r"""\bextra == ["']([A-Za-z0-9._-]+)["']""")
_LONGEST = 2000
"""The most characters of a requirement of a package."""
_MOST_REQUIREMENTS = 50_000
"""The most requirements of all packages of an image; those with all of PyTorch have 5,000."""
FACTS: records.Schema = {
    "python": _PYTHON,
    "libraries": [LINE],
    "site": {"folder": ABSOLUTE_FOLDER, "place": ABSOLUTE_FOLDER},
    "extensible": FLAG,
    "packages": Table(
        TEXT, {"version": TEXT, "requires": [LINE], "modules": [LINE], "protected": DIGEST}
    ),
}


class Installed(NamedTuple):
    """Hold one package of an image."""

    version: str
    requires: Sequence[str]
    modules: Sequence[str]
    protected: str
    """The sha256 of its list of files, if others were compiled against it, or it against others."""


class SiteFolder(NamedTuple):
    """Hold the folder of packages whose .pth files an image's Python reads."""

    folder: str = ""
    """As Python names it."""
    place: str = ""
    """Without links."""


class Facts(NamedTuple):
    """Hold the Python of an image, such as 3.11, and its packages by their plain names."""

    python: str
    packages: Mapping[str, Installed]
    libraries: frozenset[str] = frozenset()
    """The names of PyTorch's and Triton's libraries."""
    site: SiteFolder = SiteFolder()
    extensible: bool = True
    """Whether its Python adds extensions that are mounted, or layers of the image."""

    def needs(self, name: str) -> dict[str, str]:
        """Return the requirements of a package that others of the image meet, by their names."""
        versions = {}
        for requirement in self.applicable(self.packages[name].requires):
            other = self.packages.get(normal(requirement.name))
            if other and requirement.specifier.contains(other.version, prereleases=True):
                versions[normal(requirement.name)] = f"{requirement.name}{requirement.specifier}"
        return versions

    def extras(self, name: str) -> dict[str, list[str]]:
        """Return the requirements of a package that its extras add, by the name of the extra."""
        by_extra: dict[str, list[str]] = {}
        for requirement in map(_parsed, self.packages[name].requires):
            marker = str(requirement.marker) if requirement else ""
            for extra in _EXTRA.findall(marker):
                by_extra.setdefault(normal(extra), []).append(str(requirement))
        return by_extra

    def needs_of_extras(self, requirement: Requirement) -> list[str]:
        """Return what the extras of a wanted package of the image need, without conditions."""
        name = normal(requirement.name)
        known = self.extras(name) if name in self.packages else {}
        rows = (row for extra in requirement.extras for row in known.get(normal(extra), ()))
        return [row.partition(";")[0].strip() for row in rows]

    def users(self, name: str) -> list[str]:
        """Return the packages that need another one."""
        return [each for each in self.packages if name in self.needs(each)]

    def protected(self) -> dict[str, str]:
        """Return the sha256 of each protected package, by its name."""
        return {name: row.protected for name, row in self.packages.items() if row.protected}

    def compiled_against(self, name: str) -> list[str]:
        """Return the packages that were compiled against PyTorch or Triton."""
        roots = ("torch", "triton")
        return sorted(self.protected().keys() - {name}) if name in roots else []

    def hidden(self, added: Mapping[str, str]) -> Iterator[Problem]:
        """Yield a warning for each package of the image that an added one hides."""
        for name in sorted(added.keys() & self.packages.keys()):
            what = f"{name} {added[name]} hides {self.packages[name].version} of the image"
            others = ", ".join(self.compiled_against(name))
            why = f"{others} were compiled against that and may crash" if others else ""
            yield Problem(what, why=why, level="warning")

    def applicable(self, lines: Iterable[str]) -> Iterator[Requirement]:
        """Yield the valid requirements whose markers hold for its Python, without extras."""
        for requirement in map(_parsed, lines):
            if requirement and self._applies(requirement):
                yield requirement

    def _applies(self, requirement: Requirement) -> bool:
        marker = requirement.marker
        if marker is None:
            return True
        try:
            return marker.evaluate({**marker_values(self.python), "extra": ""})
        except (UndefinedComparison, UndefinedEnvironmentName):
            return False


@functools.lru_cache(_MOST_REQUIREMENTS)
def _parsed(text: str) -> Requirement | None:
    if len(text) > _LONGEST:  # A version may have more digits than Python reads.
        return None
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def read_facts(image: Path) -> Facts:
    """Return the facts of an image; its Python is asked once, until the file changes.

    Raises ``InputError`` if its answer is invalid.
    """
    known = _place(image)
    with contextlib.suppress(OSError, records.RecordError):
        return _parse(known.read_bytes())
    answer = _ask(image)
    try:
        facts = _parse(answer)
    except records.RecordError as error:
        hint = "lumicontainer inspect --check finds changed bytes; rebuild the image"
        what = "the image does not list its packages"
        raise InputError(Problem(what, str(image), str(error), hint)) from error
    # The name differs if the file changed meanwhile.
    if known == _place(image):
        _remember(known, answer)
    return facts


def _place(image: Path) -> Path:
    """Return where the answer of an image is remembered; other code of ours may ask for more."""
    files = sorted(each for part in ("image", "elf") for each in (_CODE / part).glob("*.py"))
    code = b"".join(each.read_bytes() for each in files)
    name = hashlib.sha256(f"{file_state(image)} {image_id(image)}".encode() + code).hexdigest()
    return cache_root() / "facts" / name


def _ask(image: Path) -> bytes:
    command = ["python3", "-I", "-B", "-c", _PRINT]
    mount = f"{_CODE}:{_PROBE}/inside:ro"
    started = find_engine().execute(image, command, binds=[mount], way="containall")
    hint = (
        f"see whether its Python starts: lumicontainer run {shlex.quote(str(image))} -- python3 -V"
    )
    limits = budget.ENGINE._replace(most=_MOST, hint=hint)
    return process.capture_bytes(started, env=clean_environment(), limits=limits)


def _remember(known: Path, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        make_private_folders(known.parent)
        write_whole(known, answer)
        for old in sorted(known.parent.iterdir(), key=lambda each: each.stat().st_mtime)[:-_KEPT]:
            old.unlink()


def _parse(answer: bytes) -> Facts:
    data: Any = records.parse(answer, FACTS)
    if (
        stated := sum(len(row["requires"]) for row in data["packages"].values())
    ) > _MOST_REQUIREMENTS:
        raise records.RecordError(f"its packages state {stated} requirements")
    packages: dict[str, Installed] = {}
    for name, row in data["packages"].items():
        try:
            plain, version = require_package(name, row["version"])
        except InputError as error:
            (problem,) = error.problems
            say(str(problem._replace(why="it is left out", hint="", level="warning")))
            continue
        packages[plain] = Installed(version, row["requires"], row["modules"], row["protected"])
    site, libraries = SiteFolder(**data["site"]), frozenset(data["libraries"])
    return Facts(data["python"], packages, libraries, site, data["extensible"])


def image_id(image: Path) -> str:
    """Return the identity of an image, which a build derives from the hashes of all its parts."""
    with image.open("rb") as file:
        header = sif_format.read_header(file.read(sif_format.HEADER_SIZE))
    return header.identity.hex() if header else ""
