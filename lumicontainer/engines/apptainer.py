"""Apptainer, and SingularityCE, whose options are the same and whose abilities are fewer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lumicontainer.errors import HostError, Problem
from lumicontainer.system import process
from lumicontainer.system.user_namespaces import namespace_options

DIVIDERS = ",:"
"""What divides the parts of --bind and --overlay; no engine has a way to quote it."""

INTERACTIVE = "interactive"
_WAYS = {
    INTERACTIVE: ("shell",),
    "run": ("run",),
    "shell": ("shell",),
    "cleanenv": ("exec", "--cleanenv"),
    "containall": ("exec", "--containall"),
    "no-home": ("exec", "--no-home"),
}
# A shell in a container takes what it does from its input; words behind the image it passes over.
_TYPED = 'typed=$1; shift; printf "exec %s\\n" "$typed" | "$@"'
_PRIVATE = 'umask 0077; exec "$@"'


class Apptainer:
    """Return the commands of Apptainer (measured with 1.4.5)."""

    compression = "zstd"
    reads_layers = True

    def __init__(self, program: Path) -> None:
        self.program = str(program)

    @property
    def stacks(self) -> bool:
        """Tell whether steps can run upon layers.

        Without fuse-overlayfs Apptainer takes the kernel's overlay, in which, without root, no
        folder of a lower layer can be removed (measured: Input/output error).
        """
        return process.find("fuse-overlayfs") is not None

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that makes the base of ``definition`` in the folder ``tree``."""
        return [self.program, "build", "--fakeroot", "--sandbox", str(tree), str(definition)]

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        """Yield the log of debootstrap while it makes ``tree``; what it prints the engine drops."""
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
        """Return the command that runs ``command`` as root upon ``layers``, the lowest first.

        What it changes comes to lie in ``overlay``/upper. ``temporary`` becomes /tmp; each path
        of ``binds`` is seen where it says, read-only.
        """
        base, *above = layers
        options = _step_options(temporary, binds)
        for layer in above:
            options += ["--overlay", f"{_named(layer)}:ro"]
        options += ["--overlay", _named(overlay)]
        return [self.program, "--silent", "exec", *options, str(base), *command]

    def step_in(
        self, tree: Path, command: Sequence[str], *, temporary: Path, binds: Mapping[Path, str]
    ) -> list[str]:
        """Return the command that runs ``command`` as root in the folder ``tree``, changing it."""
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
        """Return the command that runs ``command`` in an image as the present user.

        ``environment`` wins over what the image sets; its values hold neither quotes nor commas.
        ``way`` is one of ``checkfile.WAYS``, or ``INTERACTIVE``: a shell for people, and no
        ``command``.
        """
        action, *options = _WAYS.get(way, ("exec",))
        options += namespace_options()
        for bind in binds:
            options += ["--bind", bind]
        for name, value in (environment or {}).items():
            options += ["--env", f"{name}={value}"]
        words = [self.program, "--silent", action, *options, str(image)]
        if way == "shell":
            return ["sh", "-c", _TYPED, "sh", shlex.join(command), *words]
        start = ["sh", "-c", _PRIVATE, "sh"] if way == "umask" else []
        return [*start, *words, *(["--"] if way == "run" else []), *command]


class Singularity(Apptainer):
    """Return the commands of SingularityCE (measured with 4.1.1).

    In a user namespace it mounts no squashfs but the image's own; of an image's overlays it then
    shows nothing, and says nothing. It refuses squashfs with zstd ("unknown compression algorithm
    value 6").
    """

    compression = "gzip"
    reads_layers = False
    stacks = False


def _step_options(temporary: Path, binds: Mapping[Path, str]) -> list[str]:
    # --contain alone would put a tmpfs of 64 MiB on /tmp and /var/tmp; --no-umask because a umask
    # of 0007, LUMI's default, would leave files that nobody else can read; --pid because otherwise
    # what a step started outlives an interrupted build. bind-paths are the host's /etc/hosts and
    # /etc/localtime, which a step run by root could write to.
    options = ["--fakeroot", "--no-home", "--contain", "--cleanenv", "--no-umask", "--pid"]
    options += ["--no-mount", "bind-paths", "--pwd", "/"]
    for inside in ("/tmp", "/var/tmp"):
        options += ["--bind", f"{_named(temporary)}:{inside}"]
    for path, inside in binds.items():
        options += ["--bind", f"{_named(path)}:{inside}:ro"]
    return options


def _named(path: Path) -> str:
    """Return a path as the engine's options hold it; raise ``HostError`` where they cannot."""
    if any(each in str(path) for each in DIVIDERS):
        what, why = "the engine cannot be given this path", "',' and ':' divide its options"
        raise HostError(Problem(what, str(path), why, "move it, or name another place"))
    return str(path)
