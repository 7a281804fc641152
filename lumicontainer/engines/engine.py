"""The protocol of a program that runs images: an engine."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from lumicontainer.errors import HostError, Problem

DIVIDERS = ",:"
"""Separators in --bind and --overlay; no engine can quote them."""
INTERACTIVE, INSTANCE = "interactive", "instance"
"""Ways of ``execute`` besides the start modes of checks: a shell for people, and an instance."""


class StepMounts(NamedTuple):
    """Hold the host paths that a step sees."""

    temporary: Path
    """Becomes /tmp."""
    binds: Mapping[Path, str]
    """The read-only paths, with their container paths."""


class Engine(Protocol):
    """Return the commands of an engine. No method starts a program."""

    name: str
    """The name of its program, one of ``constants.ENGINES``."""
    program: str
    """The path of its program."""
    compression: str
    """The best compression that it reads, a name of mksquashfs."""

    def __init__(self, program: Path) -> None:
        """Use the program at a path."""

    @property
    def can_overlay(self) -> bool:
        """Return whether it can run a program on packed layers."""

    def bootstrap(self, definition: Path, tree: Path) -> list[str]:
        """Return the command that builds ``definition`` in the folder ``tree``."""

    def bootstrap_logs(self, tree: Path, scratch: Path) -> Iterator[Path]:
        """Yield the log of debootstrap while it fills ``tree``; ``scratch`` is the engine's own."""

    def step(
        self, layers: Sequence[Path], overlay: Path, command: Sequence[str], mounts: StepMounts
    ) -> list[str]:
        """Return the command that runs ``command`` as root on ``layers``, the lowest first.

        Changes go to ``overlay``/upper.
        """

    def step_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        """Return the command that runs ``command`` as root in the writable folder ``tree``."""

    def compile_in(self, tree: Path, command: Sequence[str], mounts: StepMounts) -> list[str]:
        """Return the command that runs ``command`` as the user in the writable folder ``tree``."""

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

    def verify(self, image: Path, key: Path | None) -> list[str]:
        """Return the command that prints, as JSON, who signed an image, and fails if it changed.

        ``key`` is the file of a public key in PEM; by default the keys of the user's keyring count.
        """


def require_option_path(path: Path) -> str:
    """Return a path for the engine's options; raise ``HostError`` if it has a separator."""
    if any(each in str(path) for each in DIVIDERS):
        what, why = "cannot pass this path to the engine", "',' and ':' separate its options"
        raise HostError(Problem(what, str(path), why, "move it, or name another place"))
    return str(path)
