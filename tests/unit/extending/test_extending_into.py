"""A new layer of an image must not replace its links or files by folders."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.into import next_number, require_folders
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


@pytest.mark.parametrize(
    ("earlier", "number"), [([], 0), (["00"], 1), (["01"], 2), (["zz", "07", "-1", "1_0"], 8)]
)
def test_a_layer_of_packages_takes_a_number_that_no_earlier_one_has(
    earlier: list[str], number: int
) -> None:
    layers = node(FOLDER, **{name: node(FOLDER) for name in earlier})
    root = node(FOLDER, opt=node(FOLDER, **{"user-software": layers}))
    assert next_number(Path("a.sif"), root) == number


def test_more_layers_of_packages_than_names_are_refused() -> None:
    layers = node(FOLDER, **{"99": node(FOLDER)})
    root = node(FOLDER, opt=node(FOLDER, **{"user-software": layers}))
    with pytest.raises(InputError, match="it has /opt/user-software/99"):
        next_number(Path("a.sif"), root)
