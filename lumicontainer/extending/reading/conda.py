"""Read an environment.yml of conda: the packages whose names in PyPI are known to be the same."""

import re
from collections.abc import Iterator

from lumicontainer.core.yaml.nodes import Mapping, Node, Scalar, Sequence
from lumicontainer.core.yaml.parse import parse_yaml
from lumicontainer.errors import Place, Problems
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.packages.conda import is_below_python, pypi_name, read_package, reason_against

PYTHON = "python =="
_EVERYWHERE = ("pip", "setuptools", "wheel")
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
    package = read_package(node.text)
    if package is None:
        what = f"invalid requirement {node.text!r}"
        problems.add(what, node.place, hint="write NAME, NAME=VERSION or NAME>=VERSION")
    elif package.name == "python":
        found = re.match(r"==([0-9]+\.[0-9]+)", package.version)
        yield from [PackageLine(f"{PYTHON}{found[1]}", node.place)] if found else []
    elif package.name in _EVERYWHERE or is_below_python(package):
        return
    elif (known := pypi_name(package)) and not reason_against(package):
        yield PackageLine(f"{known}{package.version}", node.place)
    else:
        why = reason_against(package) or _UNKNOWN
        hint = "leave it out; name it below 'pip:' if PyPI has it by this name"
        what = f"cannot take '{package.name}' of conda from PyPI"
        problems.add(what, node.place, why=why, hint=hint)
