"""The facts of an image say what an extension must not change, and what it may."""

import hashlib
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.image.facts import facts

from ...compiled import Root


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """Return a folder of packages: PyTorch, one that is linked with it, and one that is not."""
    site = Root(tmp_path)
    core = site.library("torch/lib/libtorch.so")
    site.library("linked/fast.so", needs=[core])
    site.library("alone/fast.so")
    files = {"torch": "torch/lib/libtorch.so", "linked": "linked/fast.so", "alone": "alone/fast.so"}
    for name, file in files.items():
        site.write(f"{name}-1.dist-info/METADATA", f"Name: {name}\nVersion: 1\n")
        site.write(f"{name}-1.dist-info/RECORD", f"{file},sha256=x,1\n{name}/README,sha256=x,1\n")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    return site


@pytest.mark.slow
def test_pytorch_and_what_is_linked_with_it_are_protected_by_their_files(site: Root) -> None:
    record = facts()
    assert record["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert record["libraries"] == ["libtorch.so"]
    digests = {
        name: hashlib.sha256((site.path / f"{name}-1.dist-info/RECORD").read_bytes()).hexdigest()
        for name in ("torch", "linked")
    }
    protected = {name: each["protected"] for name, each in record["packages"].items()}
    assert protected == {**digests, "alone": ""}


def test_the_folder_of_packages_is_named_with_and_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, link = tmp_path / "packages", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    monkeypatch.setattr("site.getsitepackages", lambda: ["/elsewhere", str(link)])
    monkeypatch.setattr("sys.path", [str(link)])
    assert facts()["site"] == {"folder": str(link), "place": str(folder)}
    assert not facts()["extensible"]
    (folder / "lumicontainer-extensions.pth").touch()
    assert facts()["extensible"]
