"""Each command of the manual does what it shows, with the real engine."""

import shutil
from pathlib import Path

import pytest

from lumicontainer.system.files.user_cache import cache_root

from ..documents import BLOCKS, WITH_ENGINE
from ..reader import make_reader
from .processes import Env

SLURM = [
    document
    for document in WITH_ENGINE
    if any(block.is_run and block.needs_slurm for block in BLOCKS[document])
]


@pytest.mark.parametrize(
    "document",
    [document for document in WITH_ENGINE if document not in SLURM],
    ids=lambda path: path.name,
)
def test_what_a_reader_pastes_works_and_prints_what_is_shown(
    document: Path, tmp_path: Path, image: Path
) -> None:
    read(document, tmp_path, image, {})


def read(document: Path, folder: Path, image: Path, environment: Env) -> None:
    """Run a document in the folder of the image; require that each command does what is shown."""
    reader = make_reader(folder, {"LUMICONTAINER_CACHE": str(cache_root()), **environment})
    lay(image, reader.folder)
    faults = reader.faults(document)
    assert not faults, "\n\n".join(faults)


def lay(image: Path, folder: Path) -> None:
    """Give a folder the image, which commands of the manual replace, and never write to."""
    try:
        (folder / image.name).hardlink_to(image)
    except OSError:  # It is on another disk.
        shutil.copy(image, folder)
