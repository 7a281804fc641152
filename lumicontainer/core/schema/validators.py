"""Readers of the words that recipes, layers, profiles and platforms share."""

from __future__ import annotations

from lumicontainer.core.apptainer_syntax import hazards
from lumicontainer.core.nodes import Node
from lumicontainer.core.schema import readers
from lumicontainer.errors import Place, Problems

ACCELERATORS = ("cpu", "rocm")
SCRIPT, COMPILE, FINISH = "install.sh", "compile.sh", "finish.sh"
# Names that would change how the shell itself works, or that the build sets.
RESERVED = {
    *("PATH", "HOME", "TMPDIR", "PWD", "IFS", "CDPATH", "ENV", "BASH_ENV", "SHELLOPTS"),
    *("BASHOPTS", "PS4", "UID", "EUID", "PPID", "jobs", "wheels", "secrets", "sources"),
}

NAME = r"[a-z0-9][a-z0-9.+-]*"
STEM = r"\w[\w.+-]*"
"""What recipes, profiles and platforms may be called, which is what their files are called: the
name stands in comments of documents, in paths and in lines for the shell."""
name = readers.matching(NAME, "a name of small letters, digits, '-', '.', '+'")
stem = readers.matching(STEM, "a name of letters, digits, '_', '-', '.', '+'")
variable = readers.matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a shell variable")
absolute = readers.matching(r"/[A-Za-z0-9._/+-]*", "an absolute path of plain characters")
accelerator = readers.choice(ACCELERATORS)


@readers.described(
    {**readers.schema_of(variable), "not": {"enum": sorted(RESERVED)}},
)
def constant(node: Node, problems: Problems) -> str | None:
    """Read the name of a variable that an image may hold for good."""
    value = variable(node, problems)
    if value in RESERVED:
        hint = "use 'path:' for folders" if value == "PATH" else "leave it out"
        why = "it belongs to the shell or to the user who enters the image"
        problems.add(f"the environment cannot hold '{value}'", node.place, why=why, hint=hint)
        return None
    return value


@readers.described(readers.schema_of(readers.line))
def printed(node: Node, problems: Problems) -> str | None:
    """Read a line of text that a definition can hold."""
    value = readers.line(node, problems)
    for _, reason in hazards(value or ""):
        problems.add("this text cannot stand in a definition", node.place, why=reason)
        return None
    return value


@readers.described({"type": ["string", "integer", "boolean"]})
def raw(node: Node, problems: Problems) -> tuple[Node, Place]:
    """Take a node as it is: what it must be is known later."""
    del problems
    return node, node.place


@readers.described(readers.schema_of(readers.mapping(raw, key=variable)))
def values(node: Node, problems: Problems) -> dict[str, tuple[Node, Place]] | None:
    """Read values for the parameters of a layer, which say later what each must be."""
    return readers.mapping(raw, key=variable)(node, problems)


BIND = readers.record(
    "a bind",
    {"path": absolute, "reason": readers.line, "source": readers.line},
    required=("path", "reason"),
)
