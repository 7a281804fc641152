"""Find out what a file is, and read it into a draft."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.conda import read_environment
from lumicontainer.importing.definition import read_definition
from lumicontainer.importing.dockerfile import read_dockerfile
from lumicontainer.importing.draft import Draft
from lumicontainer.importing.requirements import read_requirements
from lumicontainer.system.files.recipe_folder import read_text

_KINDS: Mapping[str, str] = {
    "dockerfile": r"(dockerfile|containerfile)([._-].*)?|.*\.(dockerfile|containerfile)",
    "definition": r"singularity([._-].*)?|.*\.(def|sdef)",
    "environment": r".*\.ya?ml",
    "requirements": r".*\.(txt|in|pip)",
}
_PLAIN_NAMES = re.compile(
    r"(dockerfile|containerfile|singularity|requirements?|environment|env)[._-]?"
)


def kind_of(file: Path) -> str:
    """Return the kind of a file, by its name; raise ``InputError`` if it is not known."""
    for kind, pattern in _KINDS.items():
        if re.fullmatch(pattern, file.name.lower()):
            return kind
    what = f"cannot see from its name what '{file}' is"
    hint = "rename it to Dockerfile, NAME.def, requirements.txt or environment.yml"
    raise InputError(Problem(what, hint=hint))


def name_for(file: Path) -> str:
    """Return a name for the recipe: the file's own, else that of its folder."""
    stem = re.sub(r"\.(def|sdef|ya?ml|txt|in|pip|dockerfile|containerfile)$", "", file.name.lower())
    own = re.sub(r"[^a-z0-9.+-]+", "-", _PLAIN_NAMES.sub("", stem)).strip("-.+")
    folder = re.sub(r"[^a-z0-9.+-]+", "-", file.resolve().parent.name.lower()).strip("-.+")
    return own or folder or "imported"


def read_into(draft: Draft, file: Path, kind: str) -> None:
    """Add the lines of a file; raise ``InputError`` if it cannot be read."""
    readers: Mapping[str, Callable[[], None]] = {
        "dockerfile": lambda: read_dockerfile(draft, file.name, _text(file)),
        "definition": lambda: read_definition(draft, file.name, _text(file)),
        "environment": lambda: read_environment(draft, file.name),
        "requirements": lambda: read_requirements(draft, file.name),
    }
    readers[kind]()


def _text(file: Path) -> str:
    return read_text(file.parent, file.name)
