"""Apptainer, and SingularityCE, which has the same options and fewer features."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process
from lumicontainer.system.user_namespaces import namespace_options

DIVIDERS = ",:"
"""Separators in --bind and --overlay; no engine can quote them."""

INTERACTIVE = "interactive"
_WAYS = {
    INTERACTIVE: ("shell",),
    "run": ("run",),
    "shell": ("shell",),
    "cleanenv": ("exec", "--cleanenv"),
    "containall": ("exec", "--containall"),
    "no-home": ("exec", "--no-home"),
}
# ``shell`` reads commands from its stdin and ignores arguments after the image.
_SHELL = 'typed=$1; shift; printf "exec %s\\n" "$typed" | "$@"'
_PRIVATE = 'umask 0077; exec "$@"'


class Apptainer:
    """Return the commands of Apptainer (tested with 1.4.5)."""

    compression = "zstd"
    reads_layers = True

    def __init__(self, program: Path) -> None:
        self.program = str(program)

    @property
    def stacks(self) -> bool:
        """Return whether fuse-overlayfs is installed."""
        # Otherwise Apptainer uses the kernel's overlay. Without root, a program then cannot remove
        # a folder of a lower layer (measured: Input/output error).
        return process.find("fuse-overlayfs") is not None

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Implement ``Engine.bootstrap``."""
        return [self.program, "build", "--fakeroot", "--sandbox", str(tree), str(definition)]

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        """Implement ``Engine.bootstrap_logs``."""
        for folder in (tree.parent, scratch):
            yield from folder.glob("build-temp-*/rootfs/debootstrap/debootstrap.log")

    def step(
        self,
        layers: Sequence[Path],
        overlay: Path,
        command: Sequence[str],
        *,
        temporary: Path,
        binds: Mapping[Path, str],
    ) -> list[str]:
        """Implement ``Engine.step``."""
        base, *above = layers
        options = _step_options(temporary, binds)
        for layer in above:
            options += ["--overlay", f"{_option_path(layer)}:ro"]
        options += ["--overlay", _option_path(overlay)]
        return [self.program, "--silent", "exec", *options, str(base), *command]

    def step_in(
        self, tree: Path, command: Sequence[str], *, temporary: Path, binds: Mapping[Path, str]
    ) -> list[str]:
        """Implement ``Engine.step_in``."""
        options = ["--writable", *_step_options(temporary, binds)]
        return [self.program, "--silent", "exec", *options, str(tree), *command]

    def execute(
        self,
        image: Path,
        command: Sequence[str],
        *,
        binds: Sequence[str],
        environment: Mapping[str, str] | None = None,
        way: str = "exec",
    ) -> list[str]:
        """Implement ``Engine.execute``."""
        action, *options = _WAYS.get(way, ("exec",))
        options += namespace_options()
        for bind in binds:
            options += ["--bind", bind]
        for name, value in (environment or {}).items():
            options += ["--env", f"{name}={value}"]
        words = [self.program, "--silent", action, *options, str(image)]
        if way == "shell":
            return ["sh", "-c", _SHELL, "sh", shlex.join(command), *words]
        start = ["sh", "-c", _PRIVATE, "sh"] if way == "umask" else []
        return [*start, *words, *(["--"] if way == "run" else []), *command]


class Singularity(Apptainer):
    """Return the commands of SingularityCE (tested with 4.1.1).

    In a user namespace it ignores the overlays of an image without a message. It rejects squashfs
    with zstd ("unknown compression algorithm value 6").
    """

    compression = "gzip"
    reads_layers = False
    stacks = False


def _step_options(temporary: Path, binds: Mapping[Path, str]) -> list[str]:
    # --contain alone mounts a tmpfs of 64 MiB on /tmp and /var/tmp. --no-umask: LUMI's default
    # 0007 creates files that others cannot read. --pid ends the processes of an interrupted step.
    # bind-paths are the host's /etc/hosts and /etc/localtime, which steps of root could change.
    options = ["--fakeroot", "--no-home", "--contain", "--cleanenv", "--no-umask", "--pid"]
    options += ["--no-mount", "bind-paths", "--pwd", "/"]
    for inside in ("/tmp", "/var/tmp"):
        options += ["--bind", f"{_option_path(temporary)}:{inside}"]
    for path, inside in binds.items():
        options += ["--bind", f"{_option_path(path)}:{inside}:ro"]
    return options


def _option_path(path: Path) -> str:
    """Return a path for the engine's options; raise ``HostError`` if it has a separator."""
    if any(each in str(path) for each in DIVIDERS):
        what, why = "cannot pass this path to the engine", "',' and ':' separate its options"
        raise HostError(Problem(what, str(path), why, "move it, or name another place"))
    return str(path)
