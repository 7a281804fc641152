"""A new layer of an image must not replace its links or files by folders."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.extension import Order
from lumicontainer.extending.into import check_image, next_number, require_folders
from lumicontainer.extending.reading.additions import Additions
from lumicontainer.image import sif
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


def test_code_that_is_bound_is_not_in_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sif, "has_overlay", lambda _: False)
    order = Order(Path("a.sif"), Additions(("six",)), frozenset(), "")
    check_image(order)
    bound = order.additions._replace(code=(Path("/x"),))
    with pytest.raises(InputError) as refused:
        check_image(order._replace(additions=bound))
    (problem,) = refused.value.problems
    assert (problem.what, problem.where) == ("your own code cannot be in the image", "--editable")
    assert problem.hint == "name the folder alone, which copies it: ./DIR; or use -o FILE"
