"""An index of packages in a folder, and uv on this host in place of a container."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lumicontainer.errors import Problem
from lumicontainer.extending.container import Container, Mounts
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.resolving import conflicts
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution
from lumicontainer.host.site import Site
from lumicontainer.host.uv import find_uv
from lumicontainer.system import process

from ....packages import write_source, write_wheel

IMAGE = Facts("3.11", {"base": Installed("2.0", (), ("base",), "")})


class Index:
    """A folder of packages, and uv beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "index"
        self.folder.mkdir()
        self.work = folder / "work"
        self.work.mkdir()

    def wheel(self, name: str, version: str, *needs: str) -> None:
        write_wheel(self.folder, name, version, *needs)

    def source(self, name: str, version: str, *needs: str, module: str = "helper") -> None:
        write_source(self.folder, name, version, *needs, module=module)

    def resolution(self, facts: Facts = IMAGE, pip: Mapping[str, str] | None = None) -> Resolution:
        pip = pip or {"no-index": "1", "find-links": str(self.folder)}
        site = Site("", "", None, {}, (self.folder,), {}, pip)
        return Resolution(WithoutContainer(self.work / "image.sif", self.work, site), facts)

    def refused(self, *lines: str) -> list[Problem]:
        resolution, question = self.resolution(), Question(lines)
        with pytest.raises(Refusal) as refusal:
            resolution.lock(question)
        return [*conflicts.explain(resolution, question, refusal.value).problems]

    def choose(self, *lines: str, facts: Facts = IMAGE) -> dict[str, str]:
        resolution = self.resolution(facts)
        return resolution.versions(resolution.lock(Question(lines)))


class WithoutContainer(Container):
    """Run uv on this host: the tests wrote all code that it runs."""

    def uv(self, mounts: Mounts, *words: str, quiet: bool = True) -> process.Finished:
        program = find_uv()
        assert program is not None
        settings = {"UV_CACHE_DIR": str(mounts.writes / "cache"), "TMPDIR": str(mounts.writes)}
        command = [str(program), *words, "--color", "never", *(["--quiet"] if quiet else [])]
        return process.in_new_session(command, env={**os.environ, **settings})
