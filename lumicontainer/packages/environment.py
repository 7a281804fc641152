"""Read the dependencies of an ``environment.yml``: packages of conda, and lines for pip."""

from collections.abc import Iterator
from typing import NamedTuple

from lumicontainer.core.yaml.nodes import Mapping, Node, Scalar, Sequence

KEY = "dependencies"
_PIP = "pip"


class Dependency(NamedTuple):
    """Hold an entry of the list: a package of conda, a line for pip, or neither."""

    node: Node
    is_pip: bool = False
    fault: str = ""
    """Why the entry is neither; empty if it is one."""

    @property
    def text(self) -> str:
        """Return the package or the line, without blanks around it."""
        return self.node.text.strip() if isinstance(self.node, Scalar) else ""


def dependencies(root: Node | None) -> list[Dependency] | None:
    """Return the dependencies of a document; None if it has no list of them."""
    for key, node in root.entries if isinstance(root, Mapping) else ():
        if key.text == KEY and isinstance(node, Sequence):
            return [each for item in node.items for each in _of_item(item)]
    return None


def _of_item(item: Node) -> Iterator[Dependency]:
    if isinstance(item, Scalar):
        yield Dependency(item)
    elif isinstance(item, Sequence):
        yield Dependency(item, fault="expected a package, or 'pip' with a list")
    else:
        for key, below in item.entries:
            if key.text != _PIP or not isinstance(below, Sequence):
                yield Dependency(key, fault=f"'{key.text}' is not 'pip' with a list")
                continue
            for each in below.items:
                odd = not isinstance(each, Scalar)
                fault = "an entry of 'pip' is not a requirement in one line" if odd else ""
                yield Dependency(each, is_pip=True, fault=fault)
