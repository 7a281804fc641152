"""Run uv in an image: it sees the image's Python, and code of a source never runs on the host."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.engines import find_engine, prefixed
from lumicontainer.errors import HostError, Problem, SpaceError
from lumicontainer.host.site import Site, read_site
from lumicontainer.host.uv import find_uv
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import plain_folder, temporary_root
from lumicontainer.system.files.trust import make_private_folders
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.os_errors import FULL

_PROBE = "/opt/lumicontainer/probe"
_NOT_STARTED = 255
"""The exit status of engines that start no container; uv has no such status."""


@dataclass(frozen=True)
class Container:
    """Start programs in an image, which see ``folder`` and ``code`` at their paths on the host."""

    image: Path
    folder: Path
    site: Site
    code: tuple[Path, ...] = ()

    def uv(self, *words: str, variables: Mapping[str, str] | None = None) -> process.Finished:
        """Run uv; return its exit status and output. Raise ``HostError`` if no container starts."""
        cache = uv_cache()
        beside = self.folder.is_relative_to(cache)
        # A mount of its own could have no hard links to the cache.
        folders = (cache, *self.code) if beside else (cache, self.folder, *self.code)
        binds = [f"{find_uv()}:{_PROBE}/uv:ro", *map(str, folders)]
        binds += [f"{each}:{each}:ro" for each in self.site.folders]
        settings = {"TMPDIR": str(self.folder), "UV_CACHE_DIR": str(cache), **(variables or {})}
        settings["UV_LINK_MODE"] = "hardlink" if beside else "copy"
        settings["PYC_INVALIDATION_MODE"] = "UNCHECKED_HASH"  # The squashfs changes all times.
        if self.site.trust:
            binds.append(f"{self.site.trust}:{_PROBE}/ca.crt:ro")
            settings["SSL_CERT_FILE"] = f"{_PROBE}/ca.crt"
        settings |= _proxies(self.site.environment)
        command = [f"{_PROBE}/uv", *words, "--no-config", "--color", "never", "--quiet"]
        started = find_engine().execute(self.image, command, binds=binds, way="containall")
        environment = {**os.environ, **prefixed(settings)}
        done = process.finished(started, env=environment, limits=budget.BUILD)
        if done.returncode == _NOT_STARTED:
            what, why = "the engine started no container of the image", done.stderr.strip()
            hint = "if it cannot mount a folder, name another one with LUMICONTAINER_TMPDIR"
            raise HostError(Problem(what, str(self.image), why, hint))
        if done.returncode and any(word in done.stderr for word in FULL):
            hint = "free some space, or name other places: LUMICONTAINER_TMPDIR and _CACHE"
            raise SpaceError(Problem("no space for the packages", str(self.folder), hint=hint))
        return done


def uv_cache() -> Path:
    """Return uv's cache, which is the user's own."""
    cache = (cache_root() / "uv").resolve()
    make_private_folders(cache)
    return cache


@contextmanager
def working_folder() -> Iterator[Path]:
    """Yield a temporary folder for an extension.

    It is in uv's cache if that is on the same file system as temporary files: hard links then take
    half of the time of copies.
    """
    cache, root = uv_cache(), temporary_root()
    beside = cache / ".extensions" if cache.stat().st_dev == root.stat().st_dev else root
    make_private_folders(beside)
    with plain_folder("extension+", beside) as folder:
        yield folder.resolve()


def open_container(image: Path, folder: Path, code: Sequence[Path]) -> Container:
    """Return what starts programs in an image; raise ``HostError`` if this host has no uv."""
    if find_uv() is None:
        hint = "pip install 'lumicontainer[lock]'"
        raise HostError(Problem("uv not found; it resolves the packages", "PATH", hint=hint))
    return Container(image, folder, read_site(""), tuple(code))


def _proxies(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.lower().endswith("_proxy")}
