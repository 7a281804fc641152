"""A build without a lock makes packages of sources with the PyTorch of the layers below."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.shipped import step_script

from ..packages import metadata
from .test_wheels import Offer, offer

__all__ = ["offer"]

Install = Callable[[], str]
BACKEND = """\
import zipfile
try:
    import torch
    text = torch.origin
except ImportError:
    text = "index"

def build_wheel(folder, settings=None, metadata=None):
    name = "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as file:
        for path, text_ in {files}.items():
            file.writestr(path, text_)
        file.writestr("tool.txt", text)
    return name
"""
FILES = {
    "tool-1.0.dist-info/METADATA": metadata("tool", "1.0", ()),
    "tool-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tool-1.0.dist-info/RECORD": "",
}


def write_source(folder: Path, needs: str) -> None:
    """Write a source that notes the PyTorch with which it is built."""
    project = f'[build-system]\nrequires = ["{needs}"]\nbuild-backend = "backend"\n'
    project += 'backend-path = ["."]\n'
    files = {"pyproject.toml": project, "backend.py": BACKEND.replace("{files}", repr(FILES))}
    with tarfile.open(folder / "tool-1.0.tar.gz", "w:gz") as file:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"tool-1.0/{path}")
            entry.size = len(text)
            file.addfile(entry, io.BytesIO(text.encode()))


def write_pytorch(folder: Path) -> None:
    """Write the PyTorch of the layers below."""
    notes = folder / "torch-2.0+image.dist-info"
    notes.mkdir(parents=True)
    (notes / "METADATA").write_text(metadata("torch", "2.0+image", ()))
    (folder / "torch.py").write_text("origin = 'image'\n")


@pytest.fixture
def install(tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what installs the source as a step does, and returns the PyTorch that built it."""
    offer("torch", "2.0")
    script = tmp_path / "install-python.sh"
    script.write_bytes(step_script(script.name))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    target = tmp_path / "installed"

    def run() -> str:
        subprocess.run(["bash", str(script), "--target", str(target), "tool"], check=True)
        return (target / "tool.txt").read_text()

    return run


@pytest.mark.parametrize(("has", "origin"), [(True, "image"), (False, "index")])
def test_a_source_is_built_with_the_pytorch_below_if_it_is_there(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch, has: bool, origin: str
) -> None:
    write_source(tmp_path / "wheels", "torch")
    if has:
        write_pytorch(tmp_path / "below")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "below"))
    assert install() == origin


def test_a_source_whose_isolated_build_fails_sees_the_packages_below(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pytorch(tmp_path / "below")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "below"))
    write_source(tmp_path / "wheels", "not-on-the-index")
    assert install() == "image"
