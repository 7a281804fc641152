"""An image with PyTorch that plain Apptainer built gets packages, and carries another image."""

from pathlib import Path

import pytest

from lumicontainer.extending.record import read_record
from lumicontainer.image.squashfs import form_of

from .conftest import ENGINE, check_output, digest, inside, lumicontainer
from .test_base_image import write

GONE = (
    *("accelerate", "datasets", "deepspeed", "horovod", "lightning", "pandas", "peft", "pyarrow"),
    *("pytorch_lightning", "scikit_learn", "scipy", "sklearn", "tensorboard", "torchmetrics"),
    *("transformers", "trl"),
)
"""Packages of the first recipe that no test here needs: they would take a minute to compress."""
DEFINITION = """\
Bootstrap: localimage
From: {image}
%post
    rm -rf /opt/lumicontainer /usr/local/bin/lumi-*
    cd /opt/venv/lib/python3.11/site-packages
    rm -rf {gone}
    rm -f *lumicontainer* /opt/venv/pip.conf /opt/venv/read-only.txt
"""
PROGRAM = "import torch; print(torch.ones(2).sum().item(), torch.__file__)"
TORCH = "2.0 /opt/venv/lib/python3.11/site-packages/torch/__init__.py"


@pytest.fixture(scope="module")
def foreign(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an image with PyTorch and gzip by Apptainer alone."""
    folder = tmp_path_factory.mktemp("foreign")
    definition = folder / "foreign.def"
    definition.write_text(
        DEFINITION.format(image=image, gone=" ".join(f"{each}*" for each in GONE))
    )
    words = ("--mksquashfs-args", "-comp gzip -Xcompression-level 1")
    check_output(ENGINE, "build", "--fakeroot", *words, folder / "foreign.sif", definition)
    assert form_of(folder / "foreign.sif") == ("gzip", 128 << 10)
    return folder / "foreign.sif"


def test_its_packages_use_the_pytorch_that_it_has(foreign: Path, tmp_path: Path) -> None:
    added = tmp_path / "added.sqsh"
    lumicontainer("extend", foreign, "torchmetrics==1.9.0", "-o", added, code=0)
    assert read_record(added).packages.keys() == {"torchmetrics", "lightning-utilities"}
    program = f"{PROGRAM}; import torchmetrics; print(torchmetrics.__version__)"
    words = ("run", "--with", added, foreign, "--", "python3", "-c", program)
    assert lumicontainer(*words, code=0).stdout.splitlines() == [TORCH, "1.9.0"]


def test_an_image_on_it_has_its_pytorch(foreign: Path, tmp_path: Path) -> None:
    recipe, image = write(tmp_path, foreign, digest(foreign), script=""), tmp_path / "mine.sif"
    platform = "summary: reads gzip\naccelerator: cpu\ncompression: gzip\n"
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/gzip.yaml").write_text(platform)
    done = lumicontainer("build", recipe, "--platform", "gzip", "--output", image, code=0)
    assert "packed again" not in done.stderr
    assert form_of(image) == form_of(foreign)
    assert inside(image, "python3", "-c", PROGRAM) == f"{TORCH}\n"
