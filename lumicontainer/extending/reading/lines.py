"""Hold the lines of files that name packages, before they are checked."""

from typing import NamedTuple

from lumicontainer.errors import Place


class PackageLine(NamedTuple):
    """Hold a requirement, and where it stands."""

    text: str
    where: Place | str = ""
    hashes: tuple[str, ...] = ()
    """The sha256 that the files of its package may have."""
