"""A new layer of an image must not replace its links or files by folders."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.into import require_folders
from lumicontainer.image.assembly.layout import FOLDER, LINK
from lumicontainer.image.assembly.tree import Node


def node(kind: int, **children: Node) -> Node:
    return Node(kind, 0o755, 0, 0, 0, {name.encode(): each for name, each in children.items()})


def test_a_layer_may_add_folders_and_not_replace_links() -> None:
    root = node(FOLDER, usr=node(FOLDER, lib=node(FOLDER)), opt=node(LINK))
    for path in ("/usr/lib/x", "/usr/lib/new/x", "/new/x"):
        require_folders(Path("a.sif"), root, path)
    with pytest.raises(InputError, match="/opt/x/y would replace its 'opt'"):
        require_folders(Path("a.sif"), root, "/opt/x/y")
