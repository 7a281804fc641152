"""Find out what an image needs of this host: its platform's binds, its layers', and libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lumicontainer.core.model import Bind, Platform
from lumicontainer.engines import find_engine
from lumicontainer.errors import Problem
from lumicontainer.host.ca_bundles import trust_of
from lumicontainer.host.host_libraries import FOLDER, Closure, Mount, close, names
from lumicontainer.host.machine import is_there
from lumicontainer.image import records
from lumicontainer.inside import elf
from lumicontainer.inside.elf.loader import VARIABLE, Library, Tree, described
from lumicontainer.system import process

_ENGINES_OWN = "/.singularity.d/libs"
"""What the engines put behind LD_LIBRARY_PATH of their own accord."""

_PROBE = "/opt/lumicontainer/probe"


@dataclass(frozen=True)
class Set:
    """Hold one variable that a container needs, and why."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Needs:
    """Hold what an image needs of this host, and why it cannot run there, if it cannot."""

    mounts: tuple[Mount, ...] = ()
    variables: tuple[Set, ...] = ()
    absent: tuple[Bind, ...] = ()
    """What is wanted and is not on this host; containers start without."""
    problems: tuple[Problem, ...] = ()

    def unfit(self) -> bool:
        """Tell whether programs in the image could not be loaded."""
        return any(problem.level == "error" for problem in self.problems)


def needs_of(image: Path, platform: Platform) -> Needs:
    """Return what an image needs on this host, which is one of ``platform``.

    Beside what the platform, the layers and their libraries need, it holds the CA bundles that the
    present environment names. Raises ``InputError`` where the image has no record, or a damaged
    one, and ``ProgramError`` where the image has to be asked and does not start.
    """
    record = records.resolved(image)
    found = _of_the_image(image, record, platform)
    trust = trust_of(os.environ)
    why = "the CA bundle of this host is seen there"
    variables = [Set(name, path, why) for name, path in trust.variables.items()]
    return replace(
        found,
        mounts=(*found.mounts, *trust.mounts),
        variables=(*found.variables, *variables),
        problems=(*_of_another(image, record, platform), *found.problems),
    )


def _of_another(image: Path, record: Mapping[str, Any], platform: Platform) -> Iterator[Problem]:
    """Yield a warning where an image was built for another platform."""
    built = record["platform"]["name"]
    if built != platform.name:
        yield Problem(
            f"the image was built for platform '{built}', not for '{platform.name}'",
            str(image),
            why="its programs may lack what that platform needs: its GPUs, its network",
            hint=f"name --platform {built}, or build the image for {platform.name}",
            level="warning",
        )


def _of_the_image(image: Path, record: Mapping[str, Any], platform: Platform) -> Needs:
    """Return what an image's platform and layers need.

    A platform that binds nothing has nothing of what a layer could want: there an image runs with
    what it has itself.
    """
    if not platform.binds:
        return Needs()
    own, wanted = records.binds(record), records.binds(record, "host_libraries")
    binds: dict[str, Bind] = {}
    for bind in (*platform.binds, *own):
        binds.setdefault(bind.path, bind)
    ordered = list(binds.values())
    there = [bind for bind in ordered if is_there(bind.path)]
    mounts = tuple(Mount(bind.path, bind.path, bind.reason) for bind in there)
    absent = tuple(bind for bind in ordered if bind not in there)
    if not wanted:
        return Needs(mounts, absent=absent)
    # What modules of the host have put there helps where the host itself finds nothing; it is not
    # asked first, because containers do not get it.
    host = Tree("/", last=_folders(os.environ.get(VARIABLE, "")))
    found, folders = _closure(image, wanted, host, seen=[bind.path for bind in there])
    variable = Set(VARIABLE, ":".join((FOLDER, *folders)), "the host's libraries stand first")
    variables = (variable,) if found.mounts else ()
    return Needs((*mounts, *found.mounts), variables, absent, found.problems)


def closure_in(root: Path, image: Path, platform: Platform) -> Closure | None:
    """Return what an image would take of the host whose files lie below ``root``.

    None where it takes no library of a host.
    """
    record = records.resolved(image)
    own, wanted = records.binds(record), records.binds(record, "host_libraries")
    if not wanted:
        return None
    paths = [bind.path for bind in (*platform.binds, *own)]
    seen = [path for path in paths if (root / path.lstrip("/")).exists()]
    return _closure(image, wanted, Tree(str(root.absolute())), seen=seen)[0]


def _closure(
    image: Path, wanted: Sequence[Bind], host: Tree, *, seen: Sequence[str]
) -> tuple[Closure, tuple[str, ...]]:
    """Return the closure of a host's libraries, and the image's LD_LIBRARY_PATH."""
    has, folders = _ask(image, names(wanted, host))
    return close(wanted, host, has.get, seen=seen), folders


def _ask(image: Path, asked: Sequence[str]) -> tuple[dict[str, Library], tuple[str, ...]]:
    """Return what programs in an image find under names of libraries, and where they look first.

    The image itself is asked, so that all its file systems and variables count.
    """
    mount = f"{Path(elf.__file__).parent}:{_PROBE}/elf:ro"
    program = f"import sys; sys.path.insert(0, '{_PROBE}'); from elf.loader import main; main()"
    command = ["python3", "-I", "-B", "-c", program, *asked]
    said = process.capture_bytes(find_engine().execute(image, command, binds=[mount]))
    data = records.answer(image, said)
    return described(data), tuple(each for each in data["folders"] if each != _ENGINES_OWN)


def _folders(text: str) -> list[str]:
    return [each for each in text.split(":") if each.startswith("/")]
