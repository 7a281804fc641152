"""Write new files of a recipe's folder: names that hide nothing, and no file overwritten."""

import contextlib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lumicontainer.core.catalog import SCHEMAS, open_catalog, shipped_folder
from lumicontainer.core.model.check import HOST, IMAGE
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml.readers import needs_quotes
from lumicontainer.core.yaml.validators import NAME
from lumicontainer.errors import InputError, Problem
from lumicontainer.system.files.regular import open_no_link
from lumicontainer.system.files.write import write_new


def check_name(name: str, option: str = "") -> None:
    """Raise ``InputError`` unless a recipe and a layer can have this name.

    ``option`` stands before names on the command line, such as ``--name``.
    """
    if not re.fullmatch(NAME, name):
        hint = "begin with a lowercase letter or a digit; then also use '-', '.' and '+'"
        raise InputError(Problem(f"invalid name '{name}' of a layer", hint=hint))
    if needs_quotes(name):
        why = "in a recipe, YAML would not read this name as text"
        hint = f"choose another name, such as {option}my-{name}"
        raise InputError(Problem(f"invalid name '{name}' of a layer", "NAME", why, hint))
    catalog = open_catalog()
    known = {"recipe": catalog.names("recipe"), "layer": [*catalog.names("layer"), IMAGE, HOST]}
    for kind, names in known.items():
        if name in names:
            why = "yours would hide it"
            hint = f"choose another name, such as {option}my-{name}"
            raise InputError(Problem(f"{kind} '{name}' exists already", "NAME", why, hint))


def write_folder(folder: Path, files: Mapping[str, LayerFile]) -> None:
    """Write new files below a folder, in this order, and the JSON Schemas that they name.

    Raises ``InputError`` if a file exists, or has the place of a folder. Removes what was written
    if a file cannot be written. A call that was killed can be repeated.
    """
    missing = {name: each for name, each in files.items() if not _is_written(folder / name, each)}
    schemas = {name: each for name, each in _schemas() if not (folder / name).exists()}
    _check_places(folder, [folder / name for name in missing or (() if schemas else files)])
    with contextlib.ExitStack() as undo:
        for name, file in {**missing, **schemas}.items():
            path = folder / name
            for parent in [each for each in reversed(path.parents) if not each.exists()]:
                parent.mkdir()
                undo.callback(_remove_folder, parent)
            write_new(path, file.content, executable=bool(file.mode & stat.S_IXUSR))
            undo.callback(path.unlink)
        undo.pop_all()


def _schemas() -> Iterator[tuple[str, LayerFile]]:
    for each in sorted((shipped_folder("recipes") / SCHEMAS).glob("*.json")):
        name = f"{SCHEMAS}/{each.name}"
        yield name, LayerFile(name, 0o644, each.read_bytes())


def _is_written(path: Path, file: LayerFile) -> bool:
    with contextlib.suppress(OSError), open_no_link(path) as stream:
        return stream.read(len(file.content) + 1) == file.content
    return False


def _check_places(folder: Path, files: Sequence[Path]) -> None:
    existing = [path for path in files if path.exists() or path.is_symlink()]
    folders = dict.fromkeys((folder, folder / SCHEMAS, *(each.parent for each in files)))
    parents = dict.fromkeys(parent for each in folders for parent in (*each.parents, each))
    hint = "choose another name or another folder; nothing was written"
    problems = [
        Problem(f"expected a folder, got the file '{path}'", hint=hint)
        for path in parents
        if path.exists() and not path.is_dir()
    ]
    if existing:
        what = "these files exist already" if len(existing) > 1 else "this file exists already"
        problems.append(Problem(what, "\n".join(map(str, existing)), hint=hint))
    if problems:
        raise InputError(*problems)


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
