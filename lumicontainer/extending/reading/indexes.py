"""Read the options of indexes in files of requirements, and add them to pip's settings."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lumicontainer.core.yaml.urls import HTTPS, find_url_fault
from lumicontainer.errors import Fault, InputError, Problem
from lumicontainer.extending.reading.package_folders import find_other_files
from lumicontainer.host.uv import allows_indexes

_OPTIONS = {
    **dict.fromkeys(("-i", "--index-url", "--pypi-url"), "index-url"),
    **dict.fromkeys(("-f", "--find-links"), "find-links"),
    "--extra-index-url": "extra-index-url",
    "--no-index": "no-index",
}
"""By option of pip: the name of its setting."""
_ADDED = ("extra-index-url", "find-links")


class IndexOption(NamedTuple):
    """Hold one setting of pip that a file of requirements asks for."""

    name: str
    value: str


def read_index_option(option: str, value: str, file: Path) -> IndexOption | Fault | None:
    """Return what an option of pip in a file asks for; None if it is not about indexes.

    As for pip, a folder of links is relative to the file's folder, if it exists there; other
    folders are relative to the current one. A URL is kept in the record, so that it holds no
    password.
    """
    name = _OPTIONS.get(option, "")
    if not name:
        return None
    if name == "no-index":
        return IndexOption(name, "1")
    if not value or value.split()[1:]:
        return Fault(f"the option {option} has no single value", value, f"write {option} URL")
    if "://" in value and not value.startswith("file:"):
        return find_url_fault(value, schemes=(HTTPS,)) or IndexOption(name, value)
    path = Path(unquote(urlsplit(value).path) if value.startswith("file:") else value).absolute()
    if name == "find-links" and (file.parent / value).is_dir():
        path = (file.parent / value).absolute()
    return _find_folder_fault(option, path) or IndexOption(
        name, str(path) if name == "find-links" else path.as_uri()
    )


def _find_folder_fault(option: str, path: Path) -> Fault | None:
    """Say why a folder that a file names is not taken: all code that is built can read it."""
    if not path.is_dir():
        hint = "correct the path; it counts from the current folder"
        return Fault(f"the folder of {option} is not found", str(path), hint)
    try:
        others = find_other_files(path)
    except OSError as error:
        return Fault(f"cannot read the folder of {option}", f"{path}: {error.strerror}")
    if not others:
        return None
    why = f"{path} holds {', '.join(others)}, which code of packages could read"
    hint = "move the packages to a folder that holds nothing else"
    return Fault(f"the folder of {option} holds other files than packages", why, hint)


def with_indexes(pip: Mapping[str, str], options: Iterable[IndexOption]) -> dict[str, str]:
    """Return pip's settings with more indexes; raise ``InputError`` if they allow none."""
    settings = dict(pip)
    for name, value in options:
        if not allows_indexes(pip) and name in ("index-url", "extra-index-url"):
            what, why = "an index of a file is not asked", "pip's configuration has no-index"
            hint = "remove the line, or the setting: pip config list shows its place"
            raise InputError(Problem(what, value, why, hint))
        known = settings.get(name, "") if name in _ADDED else ""
        settings[name] = f"{known} {value}".strip()
    return settings
