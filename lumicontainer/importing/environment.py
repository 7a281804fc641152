"""Add variables of the image, and lists of folders such as PATH."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from lumicontainer.core.yaml.readers import text
from lumicontainer.core.yaml.validators import EXPANSION, absolute, constant
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, FileLine, fault
from lumicontainer.importing.replacements import table
from lumicontainer.importing.shell.losses import Losses, Lost
from lumicontainer.importing.shell.split import OTHER_EXPANSION, expand_variables
from lumicontainer.system.terminal.masking import has_password, is_secret

READABLE = "it holds a password or token, which all who read the image would have"
UNKNOWN_EXPANSION = "it has an expansion whose value is not known"
_SYSTEM = {f"{top}{name}" for top in ("", "/usr", "/usr/local") for name in ("/bin", "/sbin")}


def add_variable(line: FileLine, name: str, value: str, losses: Losses | None = None) -> None:
    """Add a variable of the image, unless it names a path that is not there."""
    line = line.part(f"{name}={value}")
    if line.decided("environment", name):
        return
    if why := fault(constant, name) or fault(text, value):
        line.refuse(why)
        return
    if EXPANSION.search(value):
        line.refuse(UNKNOWN_EXPANSION)
        return
    if has_password(value) or is_secret(name, value):
        # The recipe names it without its value.
        line.part(name).refuse(READABLE)
        return
    if losses and value.startswith("/") and (lost := losses.find(value, "/")):
        lost.note(line, "names")
        return
    line.draft.environment[name] = value
    line.note(CARRIED)


def _note_absent(line: FileLine, lost: Sequence[Lost]) -> None:
    if lost:
        lost[0].note(line, "names")
    else:
        line.note(NOT_NEEDED, "the image does not have these folders")


def add_path(
    line: FileLine, name: str, given: str, values: Mapping[str, str], losses: Losses
) -> None:
    """Add a variable that lists folders, but those that the image does not have."""
    draft = line.draft
    # With its separator, the former value of the list is one more folder of it.
    plain = re.escape(name)
    own = rf"\$\{{{plain}:?\+(:?\$(?:{plain}|\{{{plain}\}}):?)\}}"
    listed = re.sub(own, r"\1", given)
    value = expand_variables(listed, {**draft.environment, **values})
    line = line.part(f"{name}={value}")
    folders = [each for each in value.split(":") if each and "$" not in each]
    absent = table()["folders"]
    there = [each for each in folders if not any(fnmatchcase(each, known) for known in absent)]
    lost = {each: losses.find(each, "/") for each in there}
    there = [each for each in there if not lost[each]]
    if line.decided("environment", name):
        return
    if OTHER_EXPANSION.search(value):
        line.refuse(UNKNOWN_EXPANSION)
    elif has_password(value):
        line.refuse(READABLE)
    elif folders and not there:
        _note_absent(line, [each for each in lost.values() if each])
    elif name != "PATH":
        add_variable(line, name, ":".join(there))
    elif wrong := [each for each in there if fault(absolute, each)]:
        line.refuse(f"{wrong[0]} is not a folder of plain characters")
    else:
        known = _SYSTEM.union(draft.path)
        new = [each for each in there if each not in known]
        draft.path = [*new, *draft.path]
        line.note(CARRIED, "under 'path'")
