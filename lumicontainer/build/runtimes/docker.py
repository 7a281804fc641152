"""Build by a Docker daemon, or another one with its interface, on this host.

The daemon is root, so the trees of a build have their real owners. What reads and writes a tree
runs in a container that has all files of this host, and can change only the folders of the build.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lumicontainer.build.runtimes.runtime import Base, PackedImage, Sandbox
from lumicontainer.build.workspace import DOCKER
from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.docker import base as docker_base
from lumicontainer.host.docker import check, container, daemon
from lumicontainer.host.site import stage_site
from lumicontainer.system.files.temporary import temporary_root
from lumicontainer.system.files.user_cache import cache_root

_SITE = "/tmp/.lumicontainer"


class Docker:
    """Implement ``Runtime`` by containers of Docker."""

    name = DOCKER
    compression = "zstd"
    stacks = True
    overlays = False
    unproven = "the start modes of Apptainer"

    def require_host(self) -> None:
        """Implement ``Runtime.require_host``."""
        daemon.remove_leftovers(daemon.connect())
        container.require_same_files()

    def require_plan(self, plan: Plan) -> None:
        """Implement ``Runtime.require_plan``."""
        if file := plan.bootstrap.file:
            why = "it is an image file, and Docker begins with an image of a registry"
            hint = "use --runtime namespaces, or --runtime proot as an ordinary user"
            raise InputError(Problem("cannot make the base", file, why, hint))

    def as_root(self, *writes: Path) -> list[str]:
        """Implement ``Runtime.as_root``."""
        places = map(str, (temporary_root(), cache_root(), *writes))
        return container.command(container.on_host(*places), ())

    def bootstrap(self, base: Base) -> list[str]:
        """Implement ``Runtime.bootstrap``."""
        bootstrap, staged = base.bootstrap, base.folder / "site"
        staged.mkdir()
        stage_site(base.site, staged, _SITE)
        fills = bootstrap.by_debootstrap
        return docker_base.command(
            docker_base.BaseSpec(
                image=bootstrap.image,
                tree=str(base.tree),
                folder=str(base.folder),
                program=after_bootstrap(bootstrap),
                site=f"{_SITE}/site.sh",
                binds={_SITE: str(staged), **{str(each): str(each) for each in base.site.folders}},
                release=bootstrap.release if fills else "",
                include=bootstrap.include,
                mirror=base.mirror,
            )
        )

    def bootstrap_logs(self, base: Base, _: Path) -> Iterator[Path]:
        """Implement ``Runtime.bootstrap_logs``."""
        return base.tree.glob("debootstrap/debootstrap.log")

    def step(self, sandbox: Sandbox, command: Sequence[str]) -> list[str]:
        """Implement ``Runtime.step``."""
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
        self,
        packed: PackedImage,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Implement ``Runtime.check``."""
        spec = check.CheckSpec(str(packed.image), str(temporary_root()), environment or {})
        return check.command(spec, command)
