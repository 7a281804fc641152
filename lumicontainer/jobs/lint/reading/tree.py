"""Make the tree of a script by ``tree-sitter``, and look for parts of it."""

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # It is imported when a script is linted.
    from tree_sitter import Node, Parser

_EXPANDING = frozenset(
    ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
)


@functools.cache
def parser() -> "Parser":
    """Return the parser of bash."""
    import tree_sitter_bash  # noqa: PLC0415 - only `lint` needs it
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


def is_background(node: "Node") -> bool:
    """Return whether ``&`` follows a command."""
    after = node.next_sibling
    return after is not None and after.type == "&"


def expansions(root: "Node") -> Iterator[tuple[int, int]]:
    """Yield the places of the outermost expansions."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type in _EXPANDING:
            yield node.start_byte, node.end_byte
        else:
            nodes += node.children


def assigned_names(node: "Node") -> Iterator[str]:
    """Yield the names of the variables that a part of the script sets."""
    if node.type in ("variable_assignment", "for_statement"):
        for child in node.children:
            if child.type == "variable_name":
                yield (child.text or b"").decode(errors="replace")
                break
    for child in node.children:
        yield from assigned_names(child)
