"""Apptainer, and SingularityCE, which has the same options and fewer features."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process
from lumicontainer.system.user_namespaces import namespace_options

DIVIDERS = ",:"
"""Separators in --bind and --overlay; no engine can quote them."""

INTERACTIVE, INSTANCE = "interactive", "instance"
_WAYS: dict[str, tuple[str, ...]]
_WAYS = {each: ("exec", f"--{each}") for each in ("cleanenv", "containall", "no-home")}
_WAYS |= {
    INTERACTIVE: ("shell",),
    INSTANCE: ("instance", "start"),
    "run": ("run",),
    "shell": ("shell",),
}
# ``shell`` reads commands from its stdin and ignores arguments after the image.
_SHELL = 'typed=$1; shift; printf "exec %s\\n" "$typed" | "$@"'
_PRIVATE = 'umask 0077; exec "$@"'


class StepMounts(NamedTuple):
    """Hold the host paths that a step sees."""

    temporary: Path
    """Becomes /tmp."""
    binds: Mapping[Path, str]
    """The read-only paths, with their container paths."""


class Apptainer:
    """Return the commands of Apptainer (tested with 1.4.5). No method starts a program."""

    compression = "zstd"
    """The best compression that it reads, a name of mksquashfs."""

    def __init__(self, program: Path) -> None:
        self.program = str(program)
        self._writable = [self.program, "--silent", "exec", "--writable"]

    @property
    def can_overlay(self) -> bool:
        """Return whether it can run a program on packed layers: by fuse-overlayfs."""
        # Otherwise Apptainer uses the kernel's overlay. Without root, a program then cannot remove
        # a folder of a lower layer (measured: Input/output error).
        return process.find("fuse-overlayfs") is not None

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that builds ``definition`` in the folder ``tree``."""
        return [self.program, "build", "--fakeroot", "--sandbox", str(tree), str(definition)]

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        """Yield the log of debootstrap while it fills ``tree``; ``scratch`` is the engine's own."""
        for folder in (tree.parent, scratch):
            yield from folder.glob("build-temp-*/rootfs/debootstrap/debootstrap.log")

    def step(
        self, layers: Sequence[Path], overlay: Path, command: Sequence[str], mounts: StepMounts
    ) -> list[str]:
        """Return the command that runs ``command`` as root on ``layers``, the lowest first.

        Changes go to ``overlay``/upper.
        """
        base, *above = layers
        options = _step_options(mounts)
        for layer in above:
            options += ["--overlay", f"{require_option_path(layer)}:ro"]
        options += ["--overlay", require_option_path(overlay)]
        return [self.program, "--silent", "exec", *options, str(base), *command]

    def step_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        """Return the command that runs ``command`` as root in the writable folder ``tree``."""
        return [*self._writable, *_step_options(mounts), str(tree), *command]

    def compile_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        """Return the command that runs ``command`` as the user in the writable folder ``tree``."""
        return [*self._writable, *_step_options(mounts, fakeroot=False), str(tree), *command]

    def execute(
        self,
        image: Path | str,
        command: Sequence[str],
        *,
        binds: Sequence[str],
        environment: Mapping[str, str] | None = None,
        way: str = "exec",
    ) -> list[str]:
        """Return the command that runs ``command`` in an image as the current user.

        ``environment`` overrides the image; its values have neither quotes nor commas. ``way`` is a
        start mode of checks, or ``INTERACTIVE``: a shell for people, without ``command``, or
        ``INSTANCE``: an instance, whose name is ``command``.
        """
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

    It rejects squashfs with zstd ("unknown compression algorithm value 6").
    """

    compression = "gzip"
    can_overlay = False


def _step_options(mounts: StepMounts, *, fakeroot: bool = True) -> list[str]:
    # --contain alone mounts a tmpfs of 64 MiB on /tmp and /var/tmp. --no-umask: LUMI's default
    # 0007 creates files that others cannot read. --pid ends the processes of an interrupted step.
    # bind-paths are the host's /etc/hosts and /etc/localtime, which steps of root could change.
    options = ["--fakeroot"] if fakeroot else []
    options += ["--no-home", "--contain", "--cleanenv", "--no-umask", "--pid"]
    options += ["--no-mount", "bind-paths", "--pwd", "/"]
    for inside in ("/tmp", "/var/tmp"):
        options += ["--bind", f"{require_option_path(mounts.temporary)}:{inside}"]
    for path, inside in mounts.binds.items():
        options += ["--bind", f"{require_option_path(path)}:{inside}:ro"]
    return options


def require_option_path(path: Path) -> str:
    """Return a path for the engine's options; raise ``HostError`` if it has a separator."""
    if any(each in str(path) for each in DIVIDERS):
        what, why = "cannot pass this path to the engine", "',' and ':' separate its options"
        raise HostError(Problem(what, str(path), why, "move it, or name another place"))
    return str(path)
