"""Add variables of the image, and lists of folders such as PATH."""

from fnmatch import fnmatchcase

from lumicontainer.core.yaml.validators import absolute, constant
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, Origin, fault
from lumicontainer.importing.replacements import table

_SYSTEM = {f"{top}{name}" for top in ("", "/usr", "/usr/local") for name in ("/bin", "/sbin")}


def add_variable(draft: Draft, origin: Origin, name: str, value: str) -> None:
    """Add a variable of the image."""
    text = f"{name}={value}"
    if draft.decided("environment", name, origin, text):
        return
    if why := fault(constant, name):
        draft.refuse(origin, text, why)
        return
    draft.environment[name] = value
    draft.note(origin, text, CARRIED)


def add_path(draft: Draft, origin: Origin, name: str, value: str) -> None:
    """Add a variable that lists folders, but those that the image does not have."""
    text = f"{name}={value}"
    given = [each for each in value.split(":") if each and "$" not in each]
    absent = table()["folders"]
    there = [each for each in given if not any(fnmatchcase(each, known) for known in absent)]
    if draft.decided("environment", name, origin, text):
        return
    if given and not there:
        draft.note(origin, text, NOT_NEEDED, "the image does not have these folders")
    elif name != "PATH":
        add_variable(draft, origin, name, ":".join(there))
    else:
        wrong = [each for each in there if fault(absolute, each)]
        if wrong:
            draft.refuse(origin, text, f"{wrong[0]} is not a folder of plain characters")
            return
        new = [each for each in there if each not in (*_SYSTEM, *draft.path)]
        draft.path = [*new, *draft.path]
        draft.note(origin, text, CARRIED, "under 'path'")
