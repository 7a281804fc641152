"""The protocol of what runs the programs of a build: a runtime."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from lumicontainer.core.model.layer import Bootstrap
from lumicontainer.core.plan.steps import Plan
from lumicontainer.engines import StepMounts
from lumicontainer.host.site import Site, require_keyring

OWNERS = "owners"
"""The file in the folder of a run with the owners that its program gave to files."""


class Base(NamedTuple):
    """Hold what the tree of a base is made of."""

    bootstrap: Bootstrap
    """Its image is the one of the site's mirror."""
    mirror: str
    """The URL of Debian for debootstrap; empty for another base."""
    folder: Path
    """The folder of the run."""
    tree: Path
    plain: bool
    """Its registry is asked by http."""
    site: Site


class Sandbox(NamedTuple):
    """Hold where a program runs: a tree of the layers, or apart from it."""

    root: Path
    """The folder of the run."""
    tree: Path
    layers: Sequence[Path]
    """The squashfs of the layers below, the lowest first."""
    mounts: StepMounts
    state: Path
    """The file that describes the tree."""
    apart: bool
    """The changes are discarded."""
    as_user: bool
    """The program needs no rights of root."""
    first: Sequence[str] = ()
    """The command that root runs before a program of the user: it installs packages."""


class Runtime(Protocol):
    """Return the commands of a build. Only ``require`` methods and ``clean_host`` do more."""

    name: str
    """The value of ``--runtime``."""
    compression: str = "zstd"
    """The best compression that the checks can read, a name of mksquashfs."""
    checks_tree: bool = False
    """Whether the checks may run in the tree instead of the image."""
    overlays: bool = False
    """Whether a program apart runs on the packed layers, without its own tree."""
    unlimited: str = ""
    """The limit of a step that its programs do not have; empty if they have all."""
    unproven: str = ""
    """The facts that the checks of an image cannot prove; empty if they prove everything."""

    def require_host(self) -> None:
        """Raise ``HostError`` if this host cannot build by it."""

    def clean_host(self) -> None:
        """Remove what killed programs of a build left outside its folders."""

    def require_plan(self, plan: Plan) -> None:
        """Raise ``HostError`` or ``InputError`` if it cannot build a plan."""
        if plan.bootstrap.by_debootstrap:
            require_keyring()

    def as_root(self, *writes: Path) -> list[str]:
        """Return the prefix of a command that reads and writes trees with all their owners.

        Beside the folders of the build and the cache, it can change the folders ``writes``.
        """

    def bootstrap(self, base: Base) -> list[str]:
        """Write what a base needs into its folder; return the command that makes its tree."""

    def bootstrap_logs(self, base: Base, scratch: Path) -> Iterator[Path]:
        """Yield the log of debootstrap while it fills the tree; ``scratch`` is the engine's own."""
        del scratch
        yield from base.tree.glob("debootstrap/debootstrap.log")

    def step(self, sandbox: Sandbox, command: Sequence[str]) -> list[str]:
        """Prepare a sandbox; return the command that runs ``command`` as root in it."""

    def check(
        self, image: Path, tree: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> list[str]:
        """Return the command that runs ``command`` in a packed image as the current user.

        ``tree`` has the same files if the runtime ``checks_tree``.
        """
