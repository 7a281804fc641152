"""Read the commands of apt, pip, uv and conda that install packages."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from lumicontainer.core.yaml.validators import apt_package
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, FileLine, fault
from lumicontainer.importing.lists import conda, project, requirements
from lumicontainer.importing.replacements import replacement_for
from lumicontainer.importing.shell.losses import Lost
from lumicontainer.importing.shell.options import Options, read_options
from lumicontainer.importing.shell.words import Command

_TABLES = {"apt-get": "apt", "mamba": "conda", "micromamba": "conda", "pip": "pip", "uv": "uv"}
_TABLES |= {"apt": "apt", "conda": "conda"}
"""By program: the table of its options."""
_FIRST = 3
"""Words among which ``pip`` of ``uv pip`` is."""
_VERBS = re.compile(r"install|create|sync|add|update|env")
_DRY_RUN = {"--dry-run", "-s", "--simulate"}
_PROJECT = "name the project's dependencies, and bind your code"


class Places(NamedTuple):
    """Find files of the image by the words of a command."""

    name_of: Callable[[str], str]
    """Return the name of a path in the context folder; empty if it is not from there."""
    lost: Callable[[str], Lost | None]
    """Return what a word names that is not there."""


def read_installer(line: FileLine, command: Command, places: Places) -> bool:
    """Add what a command installs; return False for other commands."""
    table = _table_of(command)
    if not table:
        return False
    words = command.words[1:]
    options = read_options(table, words)
    if options.unknown:
        if not any(map(_VERBS.fullmatch, words)):
            return False
        refuse_unknown(line, command.program(), options.unknown)
        return True
    for verb, read in _READERS[table].items():
        size = len(verb.split())
        if " ".join(options.operands[:size]) == verb:
            if _DRY_RUN.intersection(name for name, _ in options.pairs):
                line.note(NOT_NEEDED, "a dry run installs nothing")
                return True
            indexes = (requirements.index_option(*each) for each in command.assigned.items())
            pairs = (*options.pairs, *filter(None, indexes))
            read(line, Options(pairs, options.operands[size:]), places)
            return True
    return False


def installs_python(command: Command) -> bool:
    """Return whether what a command installs is for its Python, not for the system."""
    return _table_of(command) not in ("", "apt")


def _table_of(command: Command) -> str:
    """Return the name of the table of a command's options; empty if it has no table."""
    table = _TABLES.get(command.program(), "")
    return "uv pip" if table == "uv" and "pip" in command.words[1 : 1 + _FIRST] else table


def refuse_unknown(line: FileLine, program: str, option: str) -> None:
    """Refuse a whole line, as what follows an unknown option may be its value."""
    why = "so nothing of this line is carried"
    line.refuse(f"the option '{option}' of {program} is not known, {why}")


def _apt(line: FileLine, options: Options, places: Places) -> None:
    del places
    for word in dict.fromkeys(options.operands):
        package, _, version = word.partition("=")
        part = line.part(f"apt {word}")
        if part.decided("apt", package):
            continue
        if fault(apt_package, package):
            part.refuse("it is not the name of a Debian package")
            continue
        line.draft.apt.setdefault(package)
        part.note(CARRIED, f"in the version of {line.draft.goal.base}" if version else "")


def _pip(line: FileLine, options: Options, places: Places) -> None:
    is_offline = any(option == "--no-index" for option, _ in options.pairs)
    for word in options.operands:
        part = line.part(word)
        if not (is_offline and _refuse_of_folder(part, word)):
            _add_requirement(part, word, places)
    for option, value in options.pairs:
        held = option in ("-f", "--find-links") and places.lost(value)
        if held and held.outcome == NOT_NEEDED:
            held.note(line.part(f"{option} {value}"))
        elif option in ("-r", "--requirement", "--requirements"):
            _read_file(line.part(f"pip install -r {value}"), value, places)
        elif option in ("-e", "--editable"):
            _add_editable(line.part(f"{option} {value}"), value, places)
        else:
            requirements.add_option(line, option, value)


def _refuse_of_folder(line: FileLine, word: str) -> bool:
    """Add a package that comes from a folder alone; return False for a word that is not its name.

    An index may have another package by its name.
    """
    try:
        name = canonicalize_name(Requirement(word).name)
    except InvalidRequirement:
        return False
    if replacement_for("python", name):
        return False
    if name in {canonicalize_name(Requirement(each).name) for each in line.draft.python}:
        line.note(NOT_NEEDED, "an earlier line has it")
    else:
        line.refuse("it comes from a folder, and an index may have another package of this name")
    return True


def _pip_sync(line: FileLine, options: Options, places: Places) -> None:
    """Add what ``uv pip sync`` installs: its operands are files."""
    for word in options.operands:
        _read_file(line.part(f"pip install -r {word}"), word, places)
    _pip(line, options._replace(operands=()), places)


def _add_requirement(line: FileLine, word: str, places: Places) -> None:
    path = re.sub(r"\[[^]]*\]$", "", word)
    local = path.startswith((".", "/")) or ("/" in path and "://" not in path)
    if local and (lost := places.lost(path)):
        lost.note(line)
    elif _is_file(line.draft, path, places):
        line.refuse("it is a file of the folder, not the name of a package")
    else:
        requirements.add_requirement(line, word)


def _add_editable(line: FileLine, word: str, places: Places) -> None:
    if "://" not in word and (lost := places.lost(re.sub(r"\[[^]]*\]$", "", word))):
        lost.note(line)
    else:
        requirements.add_editable(line, word)


def _is_file(draft: Draft, word: str, places: Places) -> bool:
    names = filter(None, (places.name_of(word), requirements.inner_name(word)))
    return any(draft.has_file(name) for name in names)


def _read_file(line: FileLine, path: str, places: Places) -> None:
    """Add the lines of a file that pip, uv or conda reads."""
    name = places.name_of(path)
    if not name and "://" not in path and (lost := places.lost(path)):
        lost.note(line)
        return
    suffix = PurePosixPath(path).suffix
    read = {".toml": project.read_project, ".lock": project.read_uv_lock}.get(suffix)
    requirements.read_named(line, name, read or requirements.read_requirements)


def _conda(line: FileLine, options: Options, places: Places, default: str = "") -> None:
    files = [value for name, value in options.pairs if name in ("-f", "--file")]
    for path in files or ([default] if default else []):
        name = places.name_of(path)
        if not name and (lost := places.lost(path)):
            lost.note(line)
            continue
        text = path.endswith((".txt", ".lock"))
        read = conda.read_specs if text else conda.read_environment
        requirements.read_named(line, name, read)
    for word in options.operands:
        conda.add_package(line.part(word))


def _sync(line: FileLine, options: Options, places: Places) -> None:
    """Add what ``uv sync`` installs: the packages of the lock, or what the project requires."""
    groups = {"--extra", "--group", "--only-group", "--all-extras", "--all-groups", "--package"}
    if chosen := [name for name, _ in options.pairs if name in groups]:
        line.refuse(f"the option '{chosen[0]}' chooses a part of the project: {_PROJECT}")
        return
    for name, read in (("uv.lock", project.read_uv_lock), ("pyproject.toml", project.read_project)):
        if places.name_of(name):
            requirements.read_named(line, places.name_of(name), read)
            return
    line.refuse(f"neither uv.lock nor pyproject.toml is in the folder: {_PROJECT}")


def _configure(line: FileLine, options: Options, places: Places) -> None:
    """Add what ``pip config set`` chooses: an index, or what each step sets anyway."""
    del places
    key, value, *_ = (*options.operands, "", "")
    if option := requirements.index_option(key, value):
        requirements.add_option(line, *option)
    else:
        line.decided("commands", "pip config set")


_Read = Callable[[FileLine, Options, Places], None]
_READERS: Mapping[str, Mapping[str, _Read]] = {
    "apt": {"install": _apt},
    "pip": {"install": _pip, "wheel": _pip, "config set": _configure},
    "uv pip": {"pip install": _pip, "pip sync": _pip_sync},
    "uv": {"add": _pip, "sync": _sync},
    "conda": {
        "install": _conda,
        "create": _conda,
        "env create": partial(_conda, default="environment.yml"),
        "env update": partial(_conda, default="environment.yml"),
    },
}


def spellings(command: Command) -> Sequence[str]:
    """Return how the table of commands may name a command: without options, and as it is."""
    whole = " ".join(command.words)
    table = _table_of(command)
    if not table:
        return [whole]
    options = read_options(table, command.words[1:])
    bare = " ".join((command.program(), *options.operands))
    return [whole] if options.unknown else [bare, whole]
