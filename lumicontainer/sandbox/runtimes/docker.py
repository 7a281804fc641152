"""Build by a Docker daemon, or another one with its interface, on this host.

The daemon is root, so the trees of a build have their real owners. What reads and writes a tree
runs in a container that has all files of this host, and can change only the folders of the build.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.docker import base as docker_base
from lumicontainer.host.docker import check, container, daemon
from lumicontainer.host.site import stage_site
from lumicontainer.sandbox.runtimes.image_base import fill_commands, script_command
from lumicontainer.sandbox.runtimes.runtime import Base, Runtime, Sandbox
from lumicontainer.sandbox.workspace import DOCKER
from lumicontainer.system.files.temporary import temporary_root
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.programs.patience import LARGEST

_SITE = "/tmp/.lumicontainer"


class Docker(Runtime):
    """Implement ``Runtime`` by containers of Docker."""

    name = DOCKER
    unlimited = f"the bytes that a step writes ({LARGEST.variable} has no effect)"
    unproven = "the start modes of Apptainer"

    def require_host(self) -> None:
        self.clean_host()
        container.require_same_files()

    def clean_host(self) -> None:
        daemon.remove_leftovers(daemon.connect())

    def require_plan(self, plan: Plan) -> None:
        if file := plan.bootstrap.file:
            why = "it is an image file, and Docker begins with an image of a registry"
            hint = "use --runtime namespaces, or --runtime proot as an ordinary user"
            raise InputError(Problem("cannot make the base", file, why, hint))

    def as_root(self, *writes: Path) -> list[str]:
        places = map(str, (temporary_root(), cache_root(), *writes))
        return container.command(container.on_host(*places), ())

    def bootstrap(self, base: Base) -> list[str]:
        bootstrap, staged = base.bootstrap, base.folder / "site"
        staged.mkdir()
        stage_site(base.site, staged, _SITE)
        spec = docker_base.BaseSpec(
            image=bootstrap.image,
            tree=str(base.tree),
            folder=str(base.folder),
            site=f"{_SITE}/site.sh",
            binds={_SITE: str(staged), **{str(each): str(each) for each in base.site.folders}},
            release=bootstrap.release if bootstrap.by_debootstrap else "",
            include=bootstrap.include,
            mirror=base.mirror,
            plain=base.plain,
            trust=str(base.site.trust or ""),
        )
        fill: list[Sequence[str]] = [container.invocation(docker_base.__name__, spec)]
        if not bootstrap.by_debootstrap:
            fill = fill_commands(base, self._as_root_of(base), download=fill[0])
        inside = container.Spec(root=str(base.tree), environment=docker_base.TIMES, drop=["MKNOD"])
        program = ["bash", "-euo", "pipefail", "-c", after_bootstrap(bootstrap)]
        return script_command(base, [*fill, container.command(inside, program)])

    def _as_root_of(self, base: Base) -> list[str]:
        """Return the prefix of a command that can change nothing but the tree of a base."""
        return container.command(container.on_host(str(base.tree.parent)), ())

    def step(self, sandbox: Sandbox, command: Sequence[str]) -> list[str]:
        mounts, temporary = sandbox.mounts, str(sandbox.mounts.temporary)
        spec = container.Spec(
            root=str(sandbox.tree),
            binds={target: str(path) for path, target in mounts.binds.items()},
            writes={"/tmp": temporary, "/var/tmp": temporary},
            environment={},
            drop=["MKNOD"],
        )
        return container.command(spec, command)

    def check(
        self, image: Path, tree: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> list[str]:
        # Root owns what is unpacked, and no other folder is removed as root.
        folder_of_build = tree.parents[1]
        spec = check.CheckSpec(str(image), str(folder_of_build), environment)
        return [*container.invocation(check.__name__, spec), *command]
