"""What the kernel tells of this node."""

from __future__ import annotations


class Node:
    """Read the node's hardware from the kernel's files; ``root`` is / but in tests."""

    __slots__ = ("root",)

    def __init__(self, root: str = "/") -> None:
        self.root = root
