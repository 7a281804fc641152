"""Read environments of conda, which are also cotainr's files."""

import getopt
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from lumicontainer.core.model.requirements import requirement, requirement_lines
from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.draft import CARRIED, Draft, FileLine, fault
from lumicontainer.importing.environment import add_variable
from lumicontainer.importing.replacements import conda_name, table
from lumicontainer.importing.requirements import add_line, add_requirement
from lumicontainer.system.files.recipe_folder import read_bytes, read_text

_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9_][\w.-]*)\s*(.*)")


def read_environment(draft: Draft, name: str) -> None:
    """Add the lines of an environment; raise ``InputError`` if the file is none."""
    text = read_text(draft.folder, name)
    try:
        root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        why = str(error).splitlines()[0]
        raise InputError(Problem("cannot read YAML", name, why)) from error
    keys = {key.value: value for key, value in root.value} if _is(root, "mapping") else {}
    if not _is(keys.get("dependencies"), "sequence"):
        hint = "name a file of conda or cotainr, with a list of dependencies"
        raise InputError(Problem("expected an environment of conda", name, hint=hint))
    for key, value in keys.items():
        line = FileLine(draft, name, value.start_mark.line + 1, f"{key}:")
        if key == "dependencies":
            _add_dependencies(line, value)
        elif key == "variables" and _is(value, "mapping"):
            for variable, given in value.value:
                add_variable(_at(line, variable), variable.value, str(given.value))
        else:
            line.decided("conda_keys", key)


def _is(node: Any, kind: str) -> bool:
    return bool(node is not None and node.id == kind)


def _at(line: FileLine, node: Any) -> FileLine:
    """Return the line at which a node begins, with the node's text if it is one."""
    text = node.value if _is(node, "scalar") else line.text
    return line._replace(number=node.start_mark.line + 1, text=text)


def _add_dependencies(line: FileLine, node: Any) -> None:
    for item in node.value:
        if _is(item, "scalar"):
            add_package(_at(line, item))
        elif _is(item, "mapping") and [key.value for key, _ in item.value] == ["pip"]:
            for each in item.value[0][1].value:
                add_line(_at(line, each))
        else:
            _at(line, item).refuse("expected a package, or 'pip' with a list")


class Wanted(NamedTuple):
    """Hold what a command of conda names."""

    packages: Sequence[str]
    files: Sequence[str]
    unknown: str
    """An option that may change what it installs; empty if there is none."""


def wanted(words: Sequence[str]) -> Wanted:
    """Return what the words behind ``conda install`` or ``conda env create`` name."""
    flags, settings = table()["conda_flags"], table()["conda_settings"]
    known = [*flags, *(f"{name}=" for name in ("file", *settings))]
    try:
        given, packages = getopt.gnu_getopt(list(words), "yqvf:c:n:p:r:", known)
    except getopt.GetoptError as error:
        return Wanted((), (), f"{'--' if len(error.opt) > 1 else '-'}{error.opt}")
    files = [value.removeprefix("=") for name, value in given if name in ("-f", "--file")]
    return Wanted(packages, files, "")


def read_specs(draft: Draft, name: str) -> None:
    """Add the lines of a file with a package of conda in each."""
    for each in requirement_lines(read_bytes(draft.folder, name)):
        add_package(FileLine(draft, name, each.line, each.text))


def add_package(line: FileLine) -> None:
    """Add a package of conda: a layer, a Python package or a Debian package."""
    parts = _SPEC.fullmatch(line.text.strip())
    if not parts or "://" in line.text:
        line.refuse("expected a name with a version")
        return
    name, version = parts[1].lower(), _version(parts[2])
    if line.decided("conda", name, f"{version} was asked for" if version else ""):
        return
    debian: Mapping[str, str] = table()["conda_to_apt"]
    if apt := debian.get(name):
        line.draft.apt.setdefault(apt)
        line.note(CARRIED, f"as the Debian package {apt}")
    elif not line.decided("conda_other", name):
        _add_python(line, f"{conda_name(name) or name}{version}")


def _add_python(line: FileLine, wanted: str) -> None:
    if why := fault(requirement, wanted):
        line.refuse(why)
        return
    add_requirement(line, wanted)
    rows = line.draft.lines
    if rows[-1].outcome == CARRIED:
        rows[-1] = rows[-1]._replace(note=f"as the Python package {wanted}")


def _version(text: str) -> str:
    """Return the versions that pip accepts for what conda was asked."""
    bare = text.strip().partition(" ")[0] if not text.strip().startswith(("<", ">", "!")) else text
    bare = bare.replace(" ", "")
    if not bare or bare == "*":
        return ""
    if bare.startswith(("<", ">", "!")):
        return bare
    number = bare.lstrip("=").partition("=")[0]
    if number.endswith("*"):
        return f"=={number.rstrip('.*')}.*"
    exact = bare.startswith("==") or number.count(".") >= 2 or "=" in bare.lstrip("=")
    return f"=={number}" if exact else f"=={number}.*"
