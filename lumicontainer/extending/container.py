"""Run programs in an image: code of a source never runs on the host.

A container gets folders that it can read, and one that it may write. Nothing that it wrote is
trusted: see ``system/files/foreign.py``. No two kinds of work write the same folder.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lumicontainer.engines import find_engine, prefixed
from lumicontainer.engines.engine import require_option_path
from lumicontainer.errors import HostError, Problem, SpaceError, StepError
from lumicontainer.host.machine import clean_environment
from lumicontainer.host.site import Site
from lumicontainer.host.uv import find_uv
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import plain_folder, require_programs, temporary_root
from lumicontainer.system.os_errors import FULL
from lumicontainer.system.programs.folder_limit import FolderLimit
from lumicontainer.system.programs.patience import SILENCE

PROBE = "/opt/lumicontainer/probe"
FOLDER = "extension+"
"""The name of the temporary folders of extensions."""
SOURCES = "given"
"""The folder of packages that users name by their place; all containers of a call read it."""
_HINT = "add the packages one by one: one of them takes too much, or its server is too slow"
_BUILD = re.compile(r"/sdists-[^/]+/(?:pypi|index/[^/]+)/([^/]+)/([^/]+)/[^/]+/src(?:/|$)")
"""The folder of a source of an index in the cache of uv 0.7 to 0.13: its name and version."""
_NOT_STARTED = 255
"""The exit status of engines that start no container; uv has no such status."""


class Mounts(NamedTuple):
    """Hold the folders that a container sees, at their paths on the host."""

    writes: Path
    """A folder of this container alone. It gets the temporary files, and uv's cache."""
    reads: tuple[Path, ...] = ()
    changes: tuple[Path, ...] = ()
    """Folders of the user's own code, in which its build may write."""


@dataclass(frozen=True)
class Container:
    """Start programs in an image. ``folder`` is of one call alone, and no container sees it."""

    image: Path
    folder: Path
    site: Site
    code: tuple[Path, ...] = ()

    def part(self, name: str) -> Path:
        """Return a new or known folder for the files of one kind of work."""
        part = self.folder / name
        part.mkdir(exist_ok=True)
        return part

    def named_folders(self) -> list[Path]:
        """Return the folders of packages that the user or pip's configuration names."""
        sources = self.folder / SOURCES
        return [*self.site.folders, *([sources] if sources.is_dir() else [])]

    def uv(self, mounts: Mounts, *words: str, quiet: bool = True) -> process.Finished:
        """Run uv; see ``run``. Builds print nothing if ``quiet``.

        Its cache is in ``mounts.writes``, so that its links are there.
        """
        command = [f"{PROBE}/uv", *words, "--color", "never", *(["--quiet"] if quiet else [])]
        settings = {"UV_CACHE_DIR": str(mounts.writes / "cache"), "UV_LINK_MODE": "hardlink"}
        settings["PYC_INVALIDATION_MODE"] = "UNCHECKED_HASH"  # The squashfs changes all times.
        # A resolver reads what servers answer; compilers may need more memory and time.
        limits = budget.RESOLVE if words[:2] == ("pip", "compile") else budget.BUILD
        return self.run(mounts, command, settings, [f"{find_uv()}:{PROBE}/uv:ro"], limits)

    def run(
        self,
        mounts: Mounts,
        command: Sequence[str],
        variables: Mapping[str, str],
        binds: Sequence[str] = (),
        limits: budget.Helper = budget.BUILD,
    ) -> process.Finished:
        """Run a program; return its exit status and output when all of its processes have ended.

        Raises ``HostError`` if none starts, and ``OverLimitError`` if it exceeds its limits.
        """
        reads = (*self.named_folders(), *mounts.reads)
        binds = [*binds, *(f"{_path(each)}:{each}:ro" for each in reads)]
        binds += [_path(each) for each in (mounts.writes, *mounts.changes)]
        settings = {"TMPDIR": str(mounts.writes), **variables}
        if self.site.trust:
            binds.append(f"{self.site.trust}:{PROBE}/ca.crt:ro")
            settings["SSL_CERT_FILE"] = f"{PROBE}/ca.crt"
        settings |= _proxies(self.site.environment)
        # It has a process namespace: the kernel ends all that is left in it (pid_namespaces(7)).
        started = find_engine().execute(self.image, command, binds=binds, way="containall")
        # Variables of the engine, as modules of sites set them, would mount folders of the user.
        environment = {**clean_environment(), **prefixed(settings)}
        watch = FolderLimit(mounts.writes, limits.written).require
        # A server of FUSE writes all that the container reads.
        limits = limits._replace(hint=_HINT, written=0, idle=SILENCE.read() or 0)
        try:
            done = process.in_new_session(started, env=environment, limits=limits, watch=watch)
        except process.OverLimitError as error:
            raise (_idle_build(error) if error.folder else error) from None
        if done.returncode == _NOT_STARTED:
            what, why = "the engine started no container of the image", done.stderr.strip()
            hint = "if it cannot mount a folder, name another one with LUMICONTAINER_TMPDIR"
            raise HostError(Problem(what, str(self.image), why, hint))
        if done.returncode and any(word in done.stderr for word in FULL):
            hint = "free some space, or name other places: LUMICONTAINER_TMPDIR and _CACHE"
            raise SpaceError(Problem("no space for the packages", str(self.folder), hint=hint))
        return done


def _idle_build(error: process.OverLimitError) -> StepError:
    """Return the error for a container that did nothing; a build in uv's cache has a name."""
    build = _BUILD.search(error.folder)
    what = f"the build of {build[1]} {build[2]} was ended" if build else "a build was ended"
    hint = (
        f"leave the package out, or ask for another version\nif it needs longer: {SILENCE.hint()}"
    )
    return StepError(Problem(what, error.folder, error.problems[0].why, hint))


def _path(path: Path) -> str:
    return require_option_path(path)


@contextmanager
def working_folder() -> Iterator[Path]:
    """Yield a temporary folder for an extension."""
    require_programs(temporary_root())
    with plain_folder(FOLDER) as folder:
        yield folder.resolve()


def open_container(image: Path, folder: Path, site: Site, code: Sequence[Path]) -> Container:
    """Return what starts programs in an image; raise ``HostError`` if this host has no uv."""
    if find_uv() is None:
        hint = "pip install uv"
        raise HostError(Problem("uv not found; it resolves the packages", "PATH", hint=hint))
    return Container(image, folder, site, tuple(code))


def _proxies(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.lower().endswith("_proxy")}
