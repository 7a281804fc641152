"""``lumicontainer init``: a recipe and a layer to start from."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from lumicontainer.core.catalog import SCHEMAS, open_catalog, shipped_folder
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.schema.check import HOST, IMAGE
from lumicontainer.core.schema.validators import NAME
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.system.terminal.output import say, write_document

FILES: Mapping[str, str] = {
    "{name}.yaml": "recipe.yaml",
    "layers/{name}/layer.yaml": "layer.yaml",
    "layers/{name}/install.sh": "install.sh",
    "layers/{name}/checks/{name}.sh": "check.sh",
}
"""The template of each file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("name", metavar="NAME", help="what the recipe and its layer are called")
    parser.add_argument(
        "folder", metavar="DIR", type=Path, nargs="?", help="where they go; default: NAME, here"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print their paths."""
    name = arguments.name
    _check_name(name)
    folder = arguments.folder or Path(name)
    files = {folder / path.format(name=name): template for path, template in FILES.items()}
    _check_absent(list(files))
    for path, template in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(fill(f"init/{template}.j2", name=name))
        write_document(f"{path}\n")
    _write_schemas(folder / SCHEMAS)
    # What next to do stands below the files, also in a terminal.
    sys.stdout.flush()
    recipe, _, script, _ = (shlex.quote(str(path)) for path in files)
    say(
        f"what next:\n  $EDITOR {script}\n  lumicontainer check {recipe}\n"
        f"  lumicontainer build {recipe}\n  lumicontainer run {name}.sif -- {name}"
    )
    return OK


def _write_schemas(folder: Path) -> None:
    """Write the schemas that the files name for editors, where the folder has none."""
    folder.mkdir(exist_ok=True)
    for shipped in sorted((shipped_folder("recipes") / SCHEMAS).glob("*.json")):
        path = folder / shipped.name
        if not path.exists():
            path.write_bytes(shipped.read_bytes())


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        hint = "begin with a small letter or a digit; then also '-', '.' and '+'"
        raise InputError(Problem(f"no layer can be called '{name}'", hint=hint))
    catalog = open_catalog()
    known = {"recipe": catalog.recipe_names(), "layer": [*catalog.layer_names(), IMAGE, HOST]}
    for kind, names in known.items():
        if name in names:
            why = "one of your own would stand before it"
            hint = f"choose another name, such as my-{name}"
            raise InputError(Problem(f"there is a {kind} '{name}' already", "NAME", why, hint))


def _check_absent(paths: list[Path]) -> None:
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there:
        hint = "choose another name or another folder; nothing was written"
        raise InputError(Problem("this file is there already", "\n".join(there), hint=hint))
