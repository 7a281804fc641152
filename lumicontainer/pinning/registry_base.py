"""Find out what an image of a registry holds, without starting it."""

from collections.abc import Mapping

from lumicontainer.host.mirrors import mirrored_image, plain_registry, whole_image
from lumicontainer.host.registry import pinned_image, save_image
from lumicontainer.host.site import read_site
from lumicontainer.image.survey import Survey, survey_tree
from lumicontainer.sandbox.tree.foreign.unpack_image import unpack_layers
from lumicontainer.system.files.temporary import plain_folder


def read_registry(image: str, mirrors: Mapping[str, str]) -> tuple[str, Survey]:
    """Return an image by its digest, and what it holds.

    Raises ``DownloadError`` if no registry answers, or a download does not have its digest.
    """
    trust = read_site("", mirrors).trust
    pinned = pinned_image(image, mirrors, trust)
    plain = plain_registry(image, mirrors)
    with plain_folder("survey+") as folder:
        where = mirrored_image(whole_image(pinned), mirrors)
        tree = folder / "tree"
        unpack_layers(tree, save_image(where, folder, plain=plain, trust=trust).layers)
        return pinned, survey_tree(tree)
