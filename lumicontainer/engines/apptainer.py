"""The commands of Apptainer."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lumicontainer.engines.engine import (
    INSTANCE,
    INTERACTIVE,
    Engine,
    StepMounts,
    require_option_path,
)
from lumicontainer.system import process
from lumicontainer.system.user_namespaces import namespace_options

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


class Apptainer(Engine):
    """Implement ``Engine`` by Apptainer (tested with 1.4.5)."""

    name = "apptainer"
    compression = "zstd"

    def __init__(self, program: Path) -> None:
        self.program = str(program)
        self._writable = [self.program, "--silent", "exec", "--writable"]

    @property
    def can_overlay(self) -> bool:
        # By fuse-overlayfs. With the kernel's overlay, a program without root cannot remove a
        # folder of a lower layer (measured: Input/output error).
        return process.find("fuse-overlayfs") is not None

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        return [self.program, "build", "--fakeroot", "--sandbox", str(tree), str(definition)]

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        for folder in (tree.parent, scratch):
            yield from folder.glob("build-temp-*/rootfs/debootstrap/debootstrap.log")

    def step(
        self, layers: Sequence[Path], overlay: Path, command: Sequence[str], mounts: StepMounts
    ) -> list[str]:
        base, *above = layers
        options = _step_options(mounts)
        for layer in above:
            options += ["--overlay", f"{require_option_path(layer)}:ro"]
        options += ["--overlay", require_option_path(overlay)]
        return [self.program, "--silent", "exec", *options, str(base), *command]

    def step_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        return [*self._writable, *_step_options(mounts), str(tree), *command]

    def compile_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
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
        action, *options = _WAYS.get(way, ("exec",))
        options += namespace_options()
        for bind in binds:
            options += ["--bind", bind]
        for name, value in (environment or {}).items():
            options += ["--env", f"{name}={value}"]
        # A name that begins with a dash would be an option.
        path = str(image.absolute() if isinstance(image, Path) else image)
        words = [self.program, "--silent", action, *options, path]
        if way == "shell":
            return ["sh", "-c", _SHELL, "sh", shlex.join(command), *words]
        start = ["sh", "-c", _PRIVATE, "sh"] if way == "umask" else []
        return [*start, *words, *(["--"] if way == "run" else []), *command]

    def verify(self, image: Path, key: Path | None) -> list[str]:
        # --local: no server of keys is asked.
        source = ["--key", str(key)] if key else ["--local"]
        return [self.program, "verify", "--json", *source, str(image.absolute())]


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


ENGINE = Apptainer
