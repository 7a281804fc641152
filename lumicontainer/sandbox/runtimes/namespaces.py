"""Build in user namespaces with subordinate ids, by the engine's ``--fakeroot``.

The tree behaves as any folder. It lasts from step to step and from build to build, so that little
is unpacked twice. fuse-overlayfs starts faster, but is not exact: in 1.10, a removed file
reappears if it had been replaced by rename. It serves for compiling, which runs in parallel with
the steps and of which only the wheels are kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lumicontainer.constants import EPOCH
from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.core.render.render import render_base
from lumicontainer.engines import StepMounts, find_engine
from lumicontainer.host.site import require_plain_path
from lumicontainer.sandbox.runtimes.image_base import fill_commands, script_command
from lumicontainer.sandbox.runtimes.runtime import Base, Runtime, Sandbox
from lumicontainer.system import user_namespaces
from lumicontainer.system.files.temporary import require_programs, temporary_root


class Namespaces(Runtime):
    """Implement ``Runtime`` by an engine and user namespaces."""

    name = "namespaces"

    def __init__(self) -> None:
        self.engine = find_engine()
        self.compression = self.engine.compression
        self.overlays = self.engine.can_overlay

    def require_host(self) -> None:
        with_ids = user_namespaces.namespace_command()
        # First without ids: if no namespace can be created, unshare of util-linux 2.38 hangs when
        # it maps ids by newuidmap.
        for command in (user_namespaces.PLAIN_NAMESPACE, with_ids):
            user_namespaces.require_namespaces(command)
        require_programs(temporary_root(), with_ids)

    def as_root(self, *_: Path) -> list[str]:
        return user_namespaces.namespace_command()

    def bootstrap(self, base: Base) -> list[str]:
        if not base.bootstrap.by_debootstrap:
            return self._image(base)
        require_plain_path(base.folder)
        definition = base.folder / "base.def"
        definition.write_text(render_base(base.bootstrap, mirror=base.mirror))
        return self.engine.bootstrap(definition, base.tree)

    def _image(self, base: Base) -> list[str]:
        """Return the command that makes a base of an image, without the engine's bootstrap.

        Apptainer 1.4.5 writes its own files into the tree before it starts a container: if the
        image has links in their place, it writes to the host's files.
        """
        temporary = base.folder / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        (temporary / "after.sh").write_text(after_bootstrap(base.bootstrap))
        settings = ["/usr/bin/env", f"SOURCE_DATE_EPOCH={EPOCH}"]
        program = [*settings, "bash", "-euo", "pipefail", "/tmp/after.sh"]
        after = self.engine.step_in(base.tree, program, StepMounts(temporary, {}))
        return script_command(base, [*fill_commands(base, self.as_root()), after])

    def bootstrap_logs(self, base: Base, scratch: Path) -> Iterator[Path]:
        return self.engine.bootstrap_logs(base.tree, scratch)

    def step(self, sandbox: Sandbox, command: Sequence[str]) -> list[str]:
        if sandbox.apart and self.overlays:
            overlay = sandbox.root / "overlay"
            _make_overlay(overlay)
            return self.engine.step(sandbox.layers, overlay, command, sandbox.mounts)
        make_mount_points(sandbox)
        return self.engine.step_in(sandbox.tree, command, sandbox.mounts)

    def check(
        self, image: Path, tree: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> list[str]:
        del tree
        return self.engine.execute(image, command, binds=(), environment=environment)


def _make_overlay(overlay: Path) -> None:
    """Create the folders of an overlay; the root folder of the container gets their mode."""
    for name in ("upper", "work"):
        folder = overlay / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def make_mount_points(sandbox: Sandbox) -> None:
    """Create the folders of the tree on which folders of the host are mounted: engines do not."""
    for path, target in sandbox.mounts.binds.items():
        if path.is_dir():
            _make_folders(sandbox.tree, target.strip("/"))


def _make_folders(tree: Path, path: str) -> None:
    """Create the missing folders of a path with mode 0755: a step may fill them."""
    folder = tree
    for name in path.split("/"):
        folder = folder / name
        if folder.is_symlink():
            return  # It may lead out of the tree.
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
