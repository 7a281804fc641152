"""Decide which packages of an environment.yml are added: those whose names in PyPI are known."""

import re
from typing import NamedTuple

from lumicontainer.core.yaml.nodes import Node, Scalar
from lumicontainer.core.yaml.parse import parse_yaml
from lumicontainer.errors import Place, Problems
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.importing.replacements import replacement_for
from lumicontainer.packages.conda import (
    debian_name,
    is_below_python,
    pypi_name,
    read_package,
    reason_against,
)
from lumicontainer.packages.environment import dependencies

_PYTHON = "python"
_UNKNOWN = "its name in PyPI is not known, where another package may have this name"


class Environment(NamedTuple):
    """Hold the lines of an environment, the Python that it names, and what is left out."""

    lines: list[PackageLine]
    pythons: list[PackageLine]
    """The versions that it names, such as 3.11."""
    notes: list[str]
    """The packages that are not added, with the reasons."""


def read_dependencies(text: str, file: str, problems: Problems) -> Environment:
    """Return the requirements of an environment; note the problems of those that it cannot have."""
    root = parse_yaml(text, file, problems)
    listed = dependencies(root)
    environment = Environment([], [], [])
    if listed is None and root is not None:
        hint = "conda env export --from-history writes one"
        problems.add("the file has no list 'dependencies'", Place(file), hint=hint)
    for each in listed or ():
        if each.fault:
            problems.add(each.fault, each.node.place, hint="write it in one line, in quotes")
        elif each.is_pip:
            environment.lines.append(PackageLine(each.text, each.node.place))
        else:
            _add_package(environment, each.node, problems)
    return environment


def _add_package(environment: Environment, node: Node, problems: Problems) -> None:
    assert isinstance(node, Scalar)
    package = read_package(node.text)
    if package is None:
        what = f"invalid requirement {node.text!r}"
        problems.add(what, node.place, hint="write NAME, NAME=VERSION or NAME>=VERSION")
        return
    row, name = replacement_for("conda", package.name), pypi_name(package)
    if package.name == _PYTHON:
        version = re.match(r"==([0-9]+\.[0-9]+)", package.version)
        environment.pythons.extend([PackageLine(version[1], node.place)] if version else [])
    elif is_below_python(package) or row.get("layer") == _PYTHON:
        return  # Each image has it.
    elif why := row.get("drop"):
        environment.notes.append(f"{node.place}: {package.name} is left out: {why}")
    elif name and not reason_against(package):
        environment.lines.append(PackageLine(f"{name}{package.version}", node.place))
    else:
        why, hint = _refusal(reason_against(package), debian_name(package))
        what = f"cannot take '{package.name}' of conda from PyPI"
        problems.add(what, node.place, why=why, hint=hint)


def _refusal(reason: str, debian: str) -> tuple[str, str]:
    """Return why a package is refused, and the way out."""
    if debian:
        return reason or f"it is the Debian package {debian}", "leave it out; a recipe can have it"
    hint = "leave it out; name it below 'pip:' if PyPI has it by this name"
    return reason or _UNKNOWN, hint
