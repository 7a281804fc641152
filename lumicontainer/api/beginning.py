"""Write a recipe and a layer to start from."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer.api.new_files import check_name, write_folder
from lumicontainer.core import habits
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.yaml.validators import ACCELERATORS, DOCKER_IMAGE, IMAGE_FILE
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.mirrors import DOCKER, read_mirrors
from lumicontainer.image.base_image import state_and_hash
from lumicontainer.image.survey import survey
from lumicontainer.pinning.registry_base import read_registry

FILES: Mapping[str, str] = {
    "{name}.yaml": "recipe.yaml",
    "layers/{name}/layer.yaml": "layer.yaml",
    "layers/{name}/install.sh": "install.sh",
    "layers/{name}/checks/{name}.sh": "check.sh",
}
"""By file: its template."""
BASE = "layers/{name}-base/layer.yaml"


@dataclass(frozen=True)
class InitRequest:
    """Say which recipe is begun, and where."""

    name: str
    """The name of the recipe and of its layer."""
    folder: Path | None = None
    """By default ./NAME."""
    base_image: str = ""
    """An image to build on: a file or ``docker://NAME``."""
    mirrors: Sequence[str] = ()


def init(request: InitRequest) -> list[Path]:
    """Write the files, the recipe first; return their paths."""
    name = request.name
    check_name(name)
    folder = request.folder or Path(name)
    values: dict[str, Any] = {"name": name, "base": "debian", "python": True}
    templates = dict(FILES)
    if request.base_image:
        values |= _base(request)
        templates[BASE] = "base.yaml"
    files: dict[str, LayerFile] = {}
    for path, template in templates.items():
        file, text = path.format(name=name), fill(f"init/{template}.j2", **values)
        files[file] = LayerFile(file, 0o644, text.encode())
    write_folder(folder, files)
    return [folder / file for file in files]


def _base(request: InitRequest) -> dict[str, Any]:
    """Return the values of a base that is another image, as the image itself says."""
    word = request.base_image
    if not os.path.lexists(word) and (hint := habits.habit_hint(habits.BASE_IMAGE, word)):
        raise InputError(Problem(f"expected a file or docker://NAME, got '{word}'", hint=hint))
    if word.startswith(DOCKER):
        image = word.removeprefix(DOCKER)
        if not re.fullmatch(DOCKER_IMAGE, image):
            hint = "write it like docker://registry.example/name:tag"
            raise InputError(Problem(f"invalid name of an image {image!a}", hint=hint))
        source, content = read_registry(image, read_mirrors(request.mirrors))
        bootstrap = f'{{agent: docker, docker_image: "{source}"}}'
    else:
        file = Path(word).resolve()
        if not re.fullmatch(IMAGE_FILE, str(file)):
            what = "a recipe cannot name this image file"
            hint = "rename it: use letters, digits, '.', '_' and '-'"
            raise InputError(Problem(what, ascii(str(file)), hint=hint))
        sha256 = state_and_hash(file)[1]
        source, content = str(file), survey(file)
        bootstrap = f"{{agent: localimage, file: {source}, sha256: {sha256}}}"
    about = {"source": source, "bootstrap": bootstrap, "accelerators": ACCELERATORS}
    more = {"base": f"{request.name}-base", "python": "python" not in content.provides}
    return {**about, **content._asdict(), **more}
