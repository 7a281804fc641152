"""Read an environment.yml of conda: the packages whose names in PyPI are known to be the same."""

import re
from collections.abc import Iterator

from lumicontainer.core.yaml.nodes import Mapping, Node, Scalar, Sequence
from lumicontainer.core.yaml.parse import parse_yaml
from lumicontainer.errors import Place, Problems
from lumicontainer.extending.lines import PackageLine
from lumicontainer.importing.replacements import conda_name, replacement_for, table

PYTHON = "python =="
_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9][\w.-]*)\s*(.*)")
_RANGE = re.compile(r"(?:[<>=!~]=?[\w.*+!]+)(?:\s*,\s*[<>=!~]=?[\w.*+!]+)*")
_UNKNOWN = "its name in PyPI is not known, where another package may have this name"


def requirements(text: str, file: str, problems: Problems) -> list[PackageLine]:
    """Return the requirements of an environment; that of Python itself begins with ``PYTHON``."""
    root = parse_yaml(text, file, problems)
    entries = {key.text: node for key, node in root.entries} if isinstance(root, Mapping) else {}
    listed = entries.get("dependencies")
    if isinstance(listed, Sequence):
        return [line for node in listed.items for line in _of(node, problems)]
    if root is not None:
        hint = "conda env export --from-history writes one"
        problems.add("the file has no list 'dependencies'", Place(file), hint=hint)
    return []


def _of(node: Node, problems: Problems) -> Iterator[PackageLine]:
    if isinstance(node, Scalar):
        yield from _of_conda(node, problems)
        return
    for key, below in node.entries if isinstance(node, Mapping) else ():
        if key.text == "pip" and isinstance(below, Sequence):
            yield from _of_pip(below, problems)
        else:
            problems.add(f"unknown kind of packages '{key.text}'", key.place, hint="write pip:")


def _of_pip(below: Sequence, problems: Problems) -> Iterator[PackageLine]:
    for each in below.items:
        if isinstance(each, Scalar):
            yield PackageLine(each.text.strip(), each.place)
        else:
            hint = "write it in one line, in quotes"
            problems.add("an entry of 'pip' is not a requirement", each.place, hint=hint)


def _of_conda(node: Scalar, problems: Problems) -> Iterator[PackageLine]:
    parts = _SPEC.fullmatch(node.text.strip())
    name, spec = (parts[1].lower(), parts[2]) if parts else (node.text, "")
    if name == "python":
        found = re.match(r"=*([0-9]+\.[0-9]+)", spec.strip())
        yield from [PackageLine(f"{PYTHON}{found[1]}", node.place)] if found else []
        return
    if name in table()["conda_everywhere"]:
        return
    if known := conda_name(name):
        yield PackageLine(f"{known}{_version(spec)}", node.place)
        return
    why = replacement_for("conda_not_in_pypi", name).get("refuse", _UNKNOWN)
    hint = "leave it out; name it below 'pip:' if PyPI has it by this name"
    problems.add(f"cannot take '{name}' of conda from PyPI", node.place, why=why, hint=hint)


def _version(spec: str) -> str:
    """Return a version of conda as one of pip.

    ``=1.2`` and ``=1.2=build`` mean 1.2.*, and ``==1.2=build`` means 1.2.
    """
    plain = spec.replace(" ", "") if _RANGE.fullmatch(spec) else spec.strip()
    if found := re.fullmatch(r"=?([0-9][\w.]*)(?:\.\*)?(?:[ =][\w*]+)?", plain):
        return f"=={found[1]}.*"
    exact = re.fullmatch(r"(==[0-9][\w.]*)[ =][\w*]+", plain)
    return exact[1] if exact else plain
