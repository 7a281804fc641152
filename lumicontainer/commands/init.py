"""``lumicontainer init``: write a recipe and a layer to start from."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer.core.catalog import SCHEMAS, open_catalog, shipped_folder
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.schema.check import HOST, IMAGE
from lumicontainer.core.yaml.validators import NAME
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.system.terminal.output import say, write_document

FILES: Mapping[str, str] = {
    "{name}.yaml": "recipe.yaml",
    "layers/{name}/layer.yaml": "layer.yaml",
    "layers/{name}/install.sh": "install.sh",
    "layers/{name}/checks/{name}.sh": "check.sh",
}
"""By file: its template."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("name", metavar="NAME", help="the name of the recipe and of its layer")
    parser.add_argument(
        "folder", metavar="DIR", type=Path, nargs="?", help="their folder; default: ./NAME"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print their paths."""
    name = arguments.name
    _check_name(name)
    folder = arguments.folder or Path(name)
    files = {folder / path.format(name=name): template for path, template in FILES.items()}
    _check_places(folder, list(files))
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(fill(f"init/{template}.j2", name=name))
        write_document(f"{path}\n")
    _write_schemas(folder / SCHEMAS)
    sys.stdout.flush()
    recipe, _, script, _ = (shlex.quote(str(path)) for path in files)
    say(
        f"next steps:\n  $EDITOR {script}\n  lumicontainer check {recipe}\n"
        f"  lumicontainer build {recipe}\n  lumicontainer run {name}.sif -- {name}"
    )
    return OK


def _write_schemas(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for shipped in sorted((shipped_folder("recipes") / SCHEMAS).glob("*.json")):
        path = folder / shipped.name
        if not path.exists():
            path.write_bytes(shipped.read_bytes())


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        hint = "begin with a lowercase letter or a digit; then also use '-', '.' and '+'"
        raise InputError(Problem(f"invalid name '{name}' of a layer", hint=hint))
    catalog = open_catalog()
    known = {"recipe": catalog.recipe_names(), "layer": [*catalog.layer_names(), IMAGE, HOST]}
    for kind, names in known.items():
        if name in names:
            why = "yours would hide it"
            hint = f"choose another name, such as my-{name}"
            raise InputError(Problem(f"{kind} '{name}' exists already", "NAME", why, hint))


def _check_places(folder: Path, files: Sequence[Path]) -> None:
    """Raise ``InputError`` if a file exists already, or a folder's place has a file."""
    there = [path for path in files if path.exists() or path.is_symlink()]
    folders = dict.fromkeys((folder, folder / SCHEMAS, *(each.parent for each in files)))
    parents = dict.fromkeys(parent for each in folders for parent in (*each.parents, each))
    there += [path for path in parents if path.exists() and not path.is_dir()]
    if there:
        where = "\n".join(map(str, there))
        hint = "choose another name or another folder; nothing was written"
        raise InputError(Problem("this file exists already", where, hint=hint))
