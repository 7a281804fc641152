"""Add variables of the image, and lists of folders such as PATH."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from lumicontainer.core.yaml.readers import text
from lumicontainer.core.yaml.validators import EXPANSION, SUBSTITUTION, absolute, constant
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, FileLine, fault
from lumicontainer.importing.lists.requirements import add_option, index_option
from lumicontainer.importing.replacements import table
from lumicontainer.importing.shell.losses import Losses, Lost
from lumicontainer.importing.shell.split import OTHER_EXPANSION, expand_variables
from lumicontainer.system.terminal.masking import has_password, is_secret, names_secret

READABLE = (
    "it holds a password or token, which all who read the image would have; "
    "a layer gets it by 'secrets: [ID]' and --secret id=ID,src=FILE"
)
UNKNOWN_EXPANSION = "it has an expansion whose value is not known"
NO_VALUE = "it has a variable without a known value"
_SYSTEM = {f"{top}{name}" for top in ("", "/usr", "/usr/local") for name in ("/bin", "/sbin")}


def add_variable(line: FileLine, name: str, value: str, losses: Losses | None = None) -> None:
    """Add a variable of the image, unless it names a path that is not there."""
    line = line.part(f"{name}={value}")
    if add_index(line, name, value) or line.decided("environment", name):
        return
    if why := fault(constant, name) or fault(text, value):
        line.refuse(why)
        return
    if EXPANSION.search(value) or SUBSTITUTION.search(value):
        line.refuse(UNKNOWN_EXPANSION)
        return
    if has_password(value) or is_secret(name, value):
        # The recipe names it without its value.
        line.part(name).refuse(READABLE)
        return
    if not value and names_secret(name):
        line.note(NOT_NEEDED, "it is empty; a container gets the one of its machine")
        return
    if losses and value.startswith("/") and (lost := losses.find(value, "/")):
        lost.note(line, "names")
        return
    line.draft.environment[name] = value
    line.note(CARRIED)


def add_index(line: FileLine, name: str, value: str) -> bool:
    """Add a variable by which pip or uv chooses an index; return False for others."""
    if option := index_option(name, value):
        add_option(line, *option)
        line.draft.indexes.append(line.draft.lines[-1])
    return option is not None


def _note_absent(line: FileLine, lost: Sequence[Lost]) -> None:
    if lost and not lost[0].is_environment():
        lost[0].note(line, "names")
    else:
        line.note(NOT_NEEDED, "the image does not have these folders")


def add_path(
    line: FileLine, name: str, text: str, values: Mapping[str, str], losses: Losses
) -> None:
    """Add a variable that lists folders, but those that the image does not have."""
    draft = line.draft
    # With its separator, the former value of the list is one more folder of it.
    plain = re.escape(name)
    own = rf"\$\{{{plain}:?\+(:?\$(?:{plain}|\{{{plain}\}}):?)\}}"
    listed = re.sub(own, r"\1", text)
    value = expand_variables(listed, values)
    line = line.part(f"{name}={value}")
    former = re.compile(rf"\$(?:{plain}\b|\{{{plain}\b.*)")
    extends = name not in values and bool(former.search(listed))
    folders = [each for each in value.split(":") if each and not former.fullmatch(each)]
    absent = table()["folders"]
    kept = [each for each in folders if not any(fnmatchcase(each, other) for other in absent)]
    lost = {each: losses.find(each, "/") for each in kept}
    kept = [each for each in kept if not lost[each]]
    if line.decided("environment", name):
        return
    if OTHER_EXPANSION.search(value):
        line.refuse(UNKNOWN_EXPANSION)
    elif has_password(value):
        line.refuse(READABLE)
    elif any("$" in each for each in folders):
        line.refuse(NO_VALUE)
    elif not kept and (folders or extends):
        _note_absent(line, [each for each in lost.values() if each])
    elif name != "PATH" and not extends:
        draft.prepend.pop(name, None)
        add_variable(line, name, ":".join(kept))
    elif wrong := [each for each in kept if fault(absolute, each)]:
        line.refuse(f"{wrong[0]} is not a folder of plain characters")
    else:
        _put_before(draft, name, kept)
        key = "under 'path'" if name == "PATH" else "under 'prepend'"
        is_behind = bool(former.fullmatch(listed.partition(":")[0]))
        line.note(CARRIED, f"{key}, before the image's own" if is_behind else key)


def _put_before(draft: Draft, name: str, folders: Sequence[str]) -> None:
    """Add folders to ``path`` or ``prepend``, in front of earlier lines' folders."""
    former = draft.path if name == "PATH" else draft.prepend.setdefault(name, [])
    known = {*former, *(_SYSTEM if name == "PATH" else ())}
    former[:0] = [each for each in folders if each not in known]
