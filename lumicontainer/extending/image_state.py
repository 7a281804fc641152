"""The image that an extension is resolved for; one that is replaced meanwhile is noticed."""

from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import LockError, Problem
from lumicontainer.extending.facts import Facts, image_id, read_facts
from lumicontainer.system.files.regular import FileState, file_state


class ImageState(NamedTuple):
    """Hold the image that an extension is resolved for, as it was at the beginning."""

    image: Path
    state: FileState
    identity: str
    facts: Facts

    def require_same(self) -> None:
        """Raise ``LockError`` if the image was replaced: the packages fit the old one."""
        if file_state(self.image) == self.state and image_id(self.image) == self.identity:
            return
        what, why = "the image was replaced meanwhile", "the packages were chosen for the old one"
        raise LockError(Problem(what, str(self.image), why, hint="repeat the command"))


def look_at_image(image: Path) -> tuple[FileState, str]:
    """Return the state of an image's file, and the identity of the image."""
    return file_state(image), image_id(image)


def read_image_state(image: Path, seen: tuple[FileState, str]) -> ImageState:
    """Return what an image is that was ``seen``; it is compared when the work is done."""
    before = ImageState(image, *seen, read_facts(image))
    before.require_same()
    return before
