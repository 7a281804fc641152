"""``lumicontainer init``: write a recipe and a layer to start from."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lumicontainer.commands import context
from lumicontainer.commands.new_files import check_name, write_folder
from lumicontainer.core import habits
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.yaml.validators import ACCELERATORS, DOCKER_IMAGE, IMAGE_FILE
from lumicontainer.errors import OK, InputError, Problem
from lumicontainer.host.mirrors import DOCKER, read_mirrors
from lumicontainer.image.base_image import state_and_hash
from lumicontainer.image.survey import survey
from lumicontainer.pinning.registry_base import read_registry
from lumicontainer.system.terminal.output import say, write_document

FILES: Mapping[str, str] = {
    "{name}.yaml": "recipe.yaml",
    "layers/{name}/layer.yaml": "layer.yaml",
    "layers/{name}/install.sh": "install.sh",
    "layers/{name}/checks/{name}.sh": "check.sh",
}
"""By file: its template."""
BASE = "layers/{name}-base/layer.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    parser.add_argument("name", metavar="NAME", help="the name of the recipe and of its layer")
    summary = "their folder; default: ./NAME"
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", help=summary)
    summary = "build on an image, a file or docker://NAME; a layer gets the versions in it"
    parser.add_argument("--base-image", metavar="FILE", help=summary)
    context.add_options(parser, "--mirror")


def _base(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of a base that is another image, as the image itself says."""
    word = arguments.base_image
    if not os.path.lexists(word) and (hint := habits.habit_hint(habits.BASE_IMAGE, word)):
        raise InputError(Problem(f"expected a file or docker://NAME, got '{word}'", hint=hint))
    if word.startswith(DOCKER):
        image = word.removeprefix(DOCKER)
        if not re.fullmatch(DOCKER_IMAGE, image):
            hint = "write it like docker://registry.example/name:tag"
            raise InputError(Problem(f"invalid name of an image {image!a}", hint=hint))
        source, found = read_registry(image, read_mirrors(arguments.mirror))
        bootstrap = f'{{agent: docker, docker_image: "{source}"}}'
    else:
        file = Path(word).resolve()
        if not re.fullmatch(IMAGE_FILE, str(file)):
            what = "a recipe cannot name this image file"
            hint = "rename it: use letters, digits, '.', '_' and '-'"
            raise InputError(Problem(what, ascii(str(file)), hint=hint))
        sha256 = state_and_hash(file)[1]
        source, found = str(file), survey(file)
        bootstrap = f"{{agent: localimage, file: {source}, sha256: {sha256}}}"
    about = {"source": source, "bootstrap": bootstrap, "accelerators": ACCELERATORS}
    more = {"base": f"{arguments.name}-base", "python": "python" not in found.provides}
    return {**about, **found._asdict(), **more}


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print their paths."""
    name = arguments.name
    check_name(name)
    folder = arguments.folder or Path(name)
    values: dict[str, Any] = {"name": name, "base": "debian", "python": True}
    templates = dict(FILES)
    if arguments.base_image:
        values |= _base(arguments)
        templates[BASE] = "base.yaml"
    files: dict[str, LayerFile] = {}
    for path, template in templates.items():
        file, text = path.format(name=name), fill(f"init/{template}.j2", **values)
        files[file] = LayerFile(file, 0o644, text.encode())
    write_folder(folder, files)
    write_document("".join(f"{folder / file}\n" for file in files))
    sys.stdout.flush()
    recipe, _, script, *_ = (shlex.quote(str(folder / file)) for file in files)
    say(
        f"next steps:\n  $EDITOR {script}\n  lumicontainer check {recipe}\n"
        f"  lumicontainer build {recipe}\n  lumicontainer run {name}.sif -- {name}"
    )
    return OK
