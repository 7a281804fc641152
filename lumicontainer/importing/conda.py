"""Read environments of conda, which are also cotainr's files."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from lumicontainer.core.model.requirements import requirement
from lumicontainer.core.yaml.validators import apt_package
from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, Origin, fault
from lumicontainer.importing.environment import add_variable
from lumicontainer.importing.replacements import conda_name, find, table
from lumicontainer.importing.requirements import (
    add_option,
    add_requirement,
    inner_name,
    read_named,
    split_option,
)
from lumicontainer.system.files.recipe_folder import read_text

_SPEC = re.compile(r"(?:[\w./-]+::)?([A-Za-z0-9_][\w.-]*)\s*(.*)")
_LOCAL = "no Python package has this name; name the Debian package under packages.apt"
_KEYS = {
    "name": "the recipe has its own name",
    "prefix": "the image has no conda",
    "channels": "packages come from apt and pip",
    "platforms": "the platform decides it",
}
_NOT_PYTHON = ("lib", "r-", "perl-", "_", "font-", "xorg-")


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
        origin = Origin(name, value.start_mark.line + 1)
        if key == "dependencies":
            _add_dependencies(draft, name, value)
        elif key == "variables" and _is(value, "mapping"):
            _add_variables(draft, name, value)
        elif key in _KEYS:
            draft.note(origin, f"{key}:", NOT_NEEDED, _KEYS[key])
        else:
            draft.refuse(origin, f"{key}:", "this key of conda has no counterpart")


def _is(node: Any, kind: str) -> bool:
    return bool(node is not None and node.id == kind)


def _add_dependencies(draft: Draft, file: str, node: Any) -> None:
    for item in node.value:
        origin = Origin(file, item.start_mark.line + 1)
        if _is(item, "scalar"):
            add_package(draft, origin, item.value)
        elif _is(item, "mapping") and [key.value for key, _ in item.value] == ["pip"]:
            for line in item.value[0][1].value:
                _add_pip_line(draft, Origin(file, line.start_mark.line + 1), str(line.value))
        else:
            draft.refuse(origin, "dependencies:", "expected a package, or 'pip' with a list")


def _add_pip_line(draft: Draft, origin: Origin, text: str) -> None:
    option, value = split_option(text)
    if option in ("-r", "--requirement"):
        read_named(draft, origin, text, inner_name(value))
    elif option:
        add_option(draft, origin, option, value)
    else:
        add_requirement(draft, origin, text)


def _add_variables(draft: Draft, file: str, node: Any) -> None:
    for key, value in node.value:
        add_variable(draft, Origin(file, key.start_mark.line + 1), key.value, str(value.value))


def add_package(draft: Draft, origin: Origin, text: str) -> None:
    """Add a package of conda: a layer, a Python package or a Debian package."""
    parts = _SPEC.fullmatch(text.strip())
    if not parts:
        draft.refuse(origin, text, "expected a name with a version")
        return
    name, version = parts[1].lower(), _version(parts[2])
    if find("conda", name, draft.goal.accelerator):
        draft.decided("conda", name, origin, text, f"{version} was asked for" if version else "")
        return
    debian: Mapping[str, str] = table()["conda_to_apt"]
    if apt := debian.get(name):
        _add_apt(draft, origin, text, apt)
    elif name.startswith(_NOT_PYTHON) or name.endswith(("-devel", "_linux-64", "-static")):
        draft.refuse(origin, text, _LOCAL)
    else:
        _add_python(draft, origin, text, f"{conda_name(name) or name}{version}")


def _add_apt(draft: Draft, origin: Origin, text: str, package: str) -> None:
    assert not fault(apt_package, package)
    draft.apt.setdefault(package, origin)
    draft.note(origin, text, CARRIED, f"as the Debian package {package}")


def _add_python(draft: Draft, origin: Origin, text: str, wanted: str) -> None:
    if why := fault(requirement, wanted):
        draft.refuse(origin, text, why)
        return
    before = len(draft.lines)
    add_requirement(draft, origin, wanted, text)
    last = draft.lines[-1]
    if last.outcome == CARRIED and len(draft.lines) > before:
        draft.lines[-1] = last._replace(note=f"as the Python package {wanted}")


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
