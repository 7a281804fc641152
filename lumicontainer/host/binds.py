"""Find what an image needs of this host: the binds of its platform and layers, and libraries."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.model import Bind, Platform
from lumicontainer.engines import find_engine
from lumicontainer.errors import HostError, Problem
from lumicontainer.host.ca_bundles import trust_of
from lumicontainer.host.host_libraries import FOLDER, Closure, Mount, close, located
from lumicontainer.host.machine import clean_environment, is_there
from lumicontainer.image import records
from lumicontainer.inside import elf
from lumicontainer.inside.elf.loader import VARIABLE, Library, Tree, libraries_of
from lumicontainer.inside.launch import mpi
from lumicontainer.system import budget, process

_ENGINES_OWN = "/.singularity.d/libs"
"""The folder that the engines append to LD_LIBRARY_PATH."""

_PROBE = "/opt/lumicontainer/probe"


@dataclass(frozen=True)
class Set:
    """Hold one variable that a container needs, and why."""

    name: str
    value: str
    reason: str


class Needs(NamedTuple):
    """Hold what an image needs of this host, and why it cannot run there, if it cannot."""

    mounts: tuple[Mount, ...] = ()
    variables: tuple[Set, ...] = ()
    absent: tuple[Bind, ...] = ()
    """The binds whose path this host does not have; containers start without them."""
    problems: tuple[Problem, ...] = ()
    exports: Mapping[str, str] = {}
    """The variables of the shell that calls srun."""

    def unfit(self) -> bool:
        """Return whether programs in the image could not be loaded."""
        return any(problem.level == "error" for problem in self.problems)


class _HostFiles(NamedTuple):
    binds: Sequence[Bind]
    libraries: Sequence[Bind]


def needs_of(image: Path, platform: Platform) -> Needs:
    """Return what an image needs on this host, which is one of ``platform``.

    That includes the CA bundles that the current environment names. An image that another program
    built needs what the platform binds. Raises ``InputError`` if the record of the image is
    damaged, and ``ProgramError`` if the image does not start.
    """
    own = records.is_recorded(image)
    record = records.resolved(image) if own else {"platform": {"name": platform.name}}
    needs = _of_the_image(image, _host_files(record, platform))
    trust = trust_of(os.environ)
    why = "the path of the host's CA bundle in the container"
    variables = (Set(name, path, why) for name, path in trust.variables.items())
    return needs._replace(
        mounts=(*needs.mounts, *trust.mounts),
        variables=(*needs.variables, *variables),
        problems=(*of_another(image, record, platform), *needs.problems, *_unknown(image, own)),
        exports=_exports(record),
    )


def _unknown(image: Path, own: bool) -> Iterator[Problem]:
    if not own:
        what, why = "another program built the image", "it has no record of what it needs"
        hint = "set its variables and bind the host's libraries as its makers say"
        yield Problem(what, str(image), why, hint, "warning")


def static_needs(image: Path, platform: Platform) -> Needs:
    """Return the binds of an image that are the same on every node of ``platform``.

    Raises ``HostError`` if the image also takes libraries, because these differ between hosts.
    """
    record = records.resolved(image)
    sources = _host_files(record, platform)
    if sources.libraries:
        why = "what these need in turn is found on the host that runs the image"
        hint = f"call lumicontainer binds {shlex.quote(str(image))} in the job"
        what = "the image takes libraries of its host"
        raise HostError(Problem(what, str(image), why, hint))
    mounts = tuple(Mount(bind.path, bind.path, bind.reason) for bind in sources.binds)
    problems = tuple(of_another(image, record, platform))
    return Needs(mounts, problems=problems, exports=_exports(record))


def _exports(record: Mapping[str, Any]) -> dict[str, str]:
    return {mpi.TYPE: mpi.PMI2} if mpi.has_mpi(record) else {}


def recorded_binds(record: Mapping[str, Any], name: str = "binds") -> tuple[Bind, ...]:
    """Return the ``binds`` or the ``host_libraries`` of a resolved recipe."""
    rows = record.get(name, ())
    return tuple(Bind(row["path"], row.get("reason", ""), row.get("source", "")) for row in rows)


def of_another(image: Path, record: Mapping[str, Any], platform: Platform) -> Iterator[Problem]:
    """Yield the warning about an image with this record if its platform is another one."""
    built = record["platform"]["name"]
    if built != platform.name:
        what = f"the image was built for platform '{built}', not for '{platform.name}'"
        why = "its programs may not support the GPUs or the network of that platform"
        hint = f"use --platform {built}, or build the image for {platform.name}"
        yield Problem(what, str(image), why, hint, "warning")


_BIND_VARIABLES = tuple(
    f"{engine}_{name}" for engine in ("SINGULARITY", "APPTAINER") for name in ("BIND", "BINDPATH")
)


def missing_of_user(environment: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a warning for each path that the user's variables bind and this host does not have."""
    for name in _BIND_VARIABLES:
        sources = [each.partition(":")[0] for each in environment.get(name, "").split(",")]
        for source in (each for each in sources if each and not Path(each).exists()):
            what = f"{name} names a path that this host does not have"
            hint = f"correct it: export {name}=PATH,PATH, or unset {name}"
            yield Problem(what, source, "no container starts with it", hint, "warning")


def takes_of_host(record: Mapping[str, Any], platform: Platform) -> bool:
    """Return whether an image with this record takes anything of a host of ``platform``."""
    return any(_host_files(record, platform))


def _host_files(record: Mapping[str, Any], platform: Platform) -> _HostFiles:
    """Return what an image takes of its host.

    An image of another platform runs with its own files only if nothing is bound.
    """
    if not platform.binds and record["platform"]["name"] != platform.name:
        return _HostFiles((), ())
    binds: dict[str, Bind] = {}
    for bind in (*platform.binds, *recorded_binds(record)):
        binds.setdefault(bind.path, bind)
    return _HostFiles([*binds.values()], recorded_binds(record, "host_libraries"))


def _of_the_image(image: Path, sources: _HostFiles) -> Needs:
    present = [bind for bind in sources.binds if is_there(bind.path)]
    mounts = tuple(Mount(bind.path, bind.path, bind.reason) for bind in present)
    absent = tuple(bind for bind in sources.binds if bind not in present)
    if not sources.libraries:
        return Needs(mounts, absent=absent)
    # The folders of loaded modules come last, because containers do not get them.
    folders = os.environ.get(VARIABLE, "").split(":")
    host = Tree("/", last=[each for each in folders if each.startswith("/")])
    closure, own = _closure(image, sources, host)
    variable = Set(VARIABLE, ":".join((FOLDER, *own)), "the host's libraries come first")
    variables = (variable,) if closure.mounts else ()
    return Needs((*mounts, *closure.mounts), variables, absent, closure.problems)


def closure_in(root: Path, image: Path, platform: Platform) -> Closure | None:
    """Return what an image takes from the host with the root folder ``root``; None for nothing."""
    sources = _host_files(records.resolved(image), platform)
    return _closure(image, sources, Tree(str(root.absolute())))[0] if sources.libraries else None


def _closure(image: Path, sources: _HostFiles, host: Tree) -> tuple[Closure, tuple[str, ...]]:
    libraries = [located(each, host, os.environ) for each in sources.libraries]
    seen = [each.path for each in sources.binds if is_there(host.file(each.path))]
    folders: tuple[str, ...] = ()

    def ask(names: Sequence[str]) -> Mapping[str, Library]:
        nonlocal folders
        answers, folders = _ask(image, names)
        return answers

    return close(libraries, host, ask, seen=seen), folders


def _ask(image: Path, names: Sequence[str]) -> tuple[dict[str, Library], tuple[str, ...]]:
    """Return the libraries that programs in an image find by name, and their search path.

    A program in the image finds them, so that all its file systems and variables count.
    """
    mount = f"{Path(elf.__file__).parent}:{_PROBE}/elf:ro"
    program = f"import sys; sys.path.insert(0, '{_PROBE}'); from elf.loader import main; main()"
    command = ["python3", "-I", "-B", "-c", program, *names]
    started = find_engine().execute(image, command, binds=[mount])
    printed = process.capture_bytes(started, env=clean_environment(), limits=budget.ENGINE)
    data = records.answer(image, printed)
    return libraries_of(data), tuple(each for each in data["folders"] if each != _ENGINES_OWN)
