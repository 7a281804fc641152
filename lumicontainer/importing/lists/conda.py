"""Read environments of conda, which are also cotainr's files."""

import re
from pathlib import PurePosixPath

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from lumicontainer.core.model.requirements import requirement
from lumicontainer.core.yaml import nodes
from lumicontainer.core.yaml.parse import parse_yaml
from lumicontainer.errors import InputError, Problem, Problems
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, FileLine, fault, read_imported
from lumicontainer.importing.environment import add_variable
from lumicontainer.importing.lists.requirements import add_line, add_requirement, file_lines
from lumicontainer.packages.conda import (
    EXPLICIT,
    debian_name,
    is_below_python,
    is_for_mpi,
    pypi_name,
    read_package,
    reason_against,
)
from lumicontainer.packages.environment import KEY, Dependency, dependencies
from lumicontainer.system.files.recipe_folder import display

_ROW = r"([\w.-]+)\s+(\d\S*)\s+(\S+)(?:\s+([\w./-]+))?"
"""A row of ``conda list``: the name, the version, the build and the channel."""
_OF_PIP = re.compile(r"#\s*pip\s+(\S+)\s+@\s+(\S+)")
"""A package of pip in a list of conda-lock, which is a comment to conda."""


def read_environment(draft: Draft, name: str) -> None:
    """Add the lines of an environment; raise ``InputError`` if the file is not one."""
    shown, problems = display(draft.folder / name), Problems()
    root = parse_yaml(read_imported(draft, name), shown, problems)
    problems.raise_if_any()
    entries = root.entries if isinstance(root, nodes.Mapping) else ()
    listed = dependencies(root)
    if listed is None:
        hint = "name a file of conda or cotainr, with a list of dependencies"
        raise InputError(Problem("expected an environment of conda", name, hint=hint))
    for key, node in entries:
        line = FileLine(draft, name, node.place.line, f"{key.text}:")
        if key.text == KEY:
            for each in listed:
                _add_dependency(line, each)
        elif isinstance(node, nodes.Mapping) and key.text == "variables":
            for variable, value in node.entries:
                _add_variable(_at(line, variable), value)
        else:
            line.decided("conda_keys", key.text)


def _at(line: FileLine, node: nodes.Node) -> FileLine:
    """Return the line at which a node begins, with the node's text if it is one."""
    text = node.text if isinstance(node, nodes.Scalar) else line.text
    return line._replace(number=node.place.line, text=text)


def _add_variable(line: FileLine, value: nodes.Node) -> None:
    if isinstance(value, nodes.Scalar):
        add_variable(line, line.text, value.text)
    else:
        line.refuse("expected a text")


def _add_dependency(line: FileLine, each: Dependency) -> None:
    if each.fault:
        line._replace(number=each.node.place.line).refuse(each.fault)
    elif each.is_pip:
        add_line(_at(line, each.node))
    else:
        add_package(_at(line, each.node))


def is_list(text: str) -> bool:
    """Return whether a text is what ``conda list`` prints: URLs, or a build behind each name."""
    lines = [line.strip() for line in text.splitlines()]
    bare = [line for line in lines if line and not line.startswith("#")]
    forms = (r"[\w.-]+=[^=\s]+=[^=\s]+", _ROW)
    same = (bool(bare) and all(re.fullmatch(form, line) for line in bare) for form in forms)
    return EXPLICIT in bare or any(same)


def read_specs(draft: Draft, name: str) -> None:
    """Add the lines of a file with a package of conda in each, or with the URL of one."""
    for line in file_lines(draft, name):
        if line.text == EXPLICIT:
            line.note(NOT_NEEDED, "packages come from apt and pip")
        elif row := re.fullmatch(_ROW, line.text):
            package, version, build, channel = row.groups()
            add_package(line.part(f"{channel or 'defaults'}::{package}={version}={build}"))
        else:
            add_package(line)
    for number, text in enumerate(read_imported(draft, name).split("\n"), 1):
        if match := _OF_PIP.match(text):
            _add_wheel(FileLine(draft, name, number, f"{match[1]} @ {match[2]}"), *match.groups())


def _add_wheel(line: FileLine, package: str, url: str) -> None:
    """Add a package by the version that the name of its wheel has."""
    try:
        _, version, *_ = parse_wheel_filename(PurePosixPath(url.partition("#")[0]).name)
    except InvalidWheelFilename:
        add_requirement(line, line.text)
    else:
        _add_python(line, f"{package}=={version}")


def add_package(line: FileLine) -> None:
    """Add a package of conda: a layer, a Python package or a Debian package."""
    package = read_package(line.text)
    if package is None:
        line.refuse("expected a name with a version")
        return
    name, version = package.name, package.version
    if line.decided("conda", name, f"{version} was asked for" if version else ""):
        return
    if is_below_python(package):
        line.note(NOT_NEEDED, "the base and the wheels have it")
    elif is_for_mpi(package):
        line.refuse(
            "it is built for MPI, and no package of Debian or PyPI is; compile it in a layer"
        )
    elif debian := debian_name(package):
        line.draft.apt.setdefault(debian)
        line.note(CARRIED, f"as the Debian package {debian}")
    elif why := reason_against(package):
        line.refuse(why)
    elif python := pypi_name(package):
        _add_python(line, f"{python}{version}")
    else:
        line.decided("conda_other", name)


def _add_python(line: FileLine, package: str) -> None:
    if why := fault(requirement, package):
        line.refuse(why)
        return
    add_requirement(line, package)
    rows = line.draft.lines
    if rows[-1].outcome == CARRIED:
        rows[-1] = rows[-1]._replace(note=f"as the Python package {package}")
