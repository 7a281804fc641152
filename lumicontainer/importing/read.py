"""Find out what a file is, and read it into a draft."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from lumicontainer.errors import InputError, Problem
from lumicontainer.importing import definition, instructions
from lumicontainer.importing.context import find_context
from lumicontainer.importing.definition import read_definition
from lumicontainer.importing.dockerfile import read_dockerfile
from lumicontainer.importing.draft import Draft
from lumicontainer.importing.lists.conda import is_list, read_environment, read_specs
from lumicontainer.importing.lists.project import read_locked_packages, read_project, read_uv_lock
from lumicontainer.importing.lists.requirements import read_requirements
from lumicontainer.system.files.recipe_folder import read_bytes, read_text


def _read_list(draft: Draft, name: str) -> None:
    """Add the lines of a list of pip or of conda."""
    if is_list(read_bytes(draft.folder, name).decode(errors="replace")):
        read_specs(draft, name)
    else:
        read_requirements(draft, name)


_READERS: Mapping[str, Callable[[Draft, str], None]] = {
    r"(dockerfile|containerfile)([._-].*)?|.*\.(dockerfile|containerfile)": read_dockerfile,
    r"singularity([._-].*)?|.*\.(def|sdef)": read_definition,
    r".*\.ya?ml": read_environment,
    r"pyproject\.toml": read_project,
    r"(uv|.*\.uv)\.lock": read_uv_lock,
    r"pylock(\..+)?\.toml": read_locked_packages,
    r".*\.(txt|in|pip|lst|list)": _read_list,
}
"""By the names of files: what adds the lines of one to a draft."""
_INSTEAD: Mapping[str, str] = {
    r"(poetry|pdm|pixi)\.lock|pixi\.toml|pipfile(\.lock)?|conda-lock\.ya?ml": (
        "let the tool that wrote it export requirements.txt or environment.yml"
    ),
    r"setup\.(py|cfg)": "write its dependencies to a requirements.txt: none of its code is run",
    r"(docker-)?compose\.ya?ml": "name the Dockerfile that it builds",
}
"""By the names of files that are not read: what to do instead."""
_PLAIN_NAMES = re.compile(
    r"(dockerfile|containerfile|singularity|requirements?|environment|env|pyproject|pylock|uv)[._-]?"
)


def reader_of(file: Path) -> Callable[[Draft, str], None]:
    """Return what reads a file, by its name; raise ``InputError`` if that is not known."""
    name = file.name.lower()
    instead = next((hint for form, hint in _INSTEAD.items() if re.fullmatch(form, name)), "")
    readers = (reader for form, reader in _READERS.items() if re.fullmatch(form, name))
    reader = None if instead else next(readers, None)
    if reader:
        return reader
    hint = instead or "rename it to Dockerfile, NAME.def, requirements.txt or environment.yml"
    raise InputError(Problem(f"unknown kind of file '{file}'", hint=hint))


_COPIED: Mapping[Callable[[Draft, str], None], Callable[[str], list[str]]] = {
    read_dockerfile: instructions.copied,
    read_definition: definition.copied,
}
"""By reader: what returns the files that a text copies."""


def context_for(file: Path, named: Path | None) -> Path:
    """Return the folder whose files a file copies: the named one, or what is found.

    Raises ``InputError`` if the file copies nothing, or if the named path is not a folder.
    """
    if named and reader_of(file) not in _COPIED:
        hint = "leave --context out; files that it names lie next to it"
        raise InputError(Problem("this kind of file copies no files", str(file), hint=hint))
    if named and not named.is_dir():
        hint = "name a folder by --context"
        raise InputError(Problem(f"folder '{named}' not found", hint=hint))
    sources = _COPIED.get(reader_of(file))
    if named or not sources:
        return named or file.parent
    return find_context(file, sources(read_text(file.parent, file.name)))


def name_for(file: Path) -> str:
    """Return a name for the recipe: the file's own, else its folder's."""
    stem = re.sub(
        r"\.(def|sdef|ya?ml|txt|in|pip|lst|list|toml|lock|dockerfile|containerfile)$",
        "",
        file.name.lower(),
    )
    names = (_PLAIN_NAMES.sub("", stem), file.resolve().parent.name.lower())
    plain = (re.sub(r"[^a-z0-9.+-]+", "-", name).strip("-.+") for name in names)
    # The name of a layer begins with a letter.
    return next((name for name in plain if name[:1].isalpha()), "imported")
