"""An image stands on the file of another one, with what that one sets and holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..conftest import CHECK
from .conftest import digest, inside, lumicontainer, write_files
from .test_without_namespaces import IMAGE, mirror  # noqa: F401


@pytest.fixture(scope="module")
def theirs(small: Path, recipes: Path) -> Path:
    """Build the image ``small`` once more, elsewhere."""
    path = small.with_name("theirs.sif")
    words = ("--recipes", recipes, "--output", path, "--no-verify")
    lumicontainer("build", "small", *words, code=0)
    return path


def write(folder: Path, image: Path, sha256: str) -> Path:
    """Write a recipe that stands on an image file; return its path."""
    files = {
        "mine.yaml": "summary: an image on another one\nbase: theirs\nlayers: [mine]\n",
        "layers/theirs/layer.yaml": (
            "summary: an image that was built elsewhere\n"
            f"bootstrap: {{cpu: {{agent: localimage, file: {image}, sha256: {sha256}}}}}\n"
            'provides: {python: "3.11", glibc: "2.36"}\npath: [/opt/greet/bin]\n'
        ),
        "layers/mine/layer.yaml": "summary: a file\n",
        "layers/mine/install.sh": "set -euo pipefail\ncp /opt/greet/greeting /opt/mine\n",
        "layers/mine/checks/mine.sh": f"{CHECK}test -s /opt/mine\n",
    }
    return write_files(folder, files) / "mine.yaml"


def test_an_image_on_another_one_is_locked_built_checked_and_run(
    theirs: Path, tmp_path: Path
) -> None:
    recipe, image = write(tmp_path, theirs, digest(theirs)), tmp_path / "mine.sif"
    assert "1 pin, 0 not pinned" in lumicontainer("lock", recipe, code=0).stderr
    lumicontainer("build", recipe, "--locked", "--output", image, code=0)
    seen = inside(image, "sh", "-c", 'cat /opt/mine; echo " $GREETING_STYLE $PATH"')
    assert seen.startswith("it's $(id) `id` %post {{ x }} plain /opt/greet/bin:")


def test_a_changed_file_is_refused(theirs: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.sif"
    changed.write_bytes(theirs.read_bytes() + b"x")
    # An unchanged base is taken from the cache, and its file is not read.
    recipe = write(tmp_path, changed, digest(theirs))
    done = lumicontainer("build", recipe, "--rebuild", cwd=tmp_path, code=6)
    assert f"expected {digest(theirs)}\n         found    {digest(changed)}" in done.stderr


def test_a_base_of_a_registry_is_read_by_its_digest_and_built(
    mirror: list[str],  # noqa: F811
    tmp_path: Path,
) -> None:
    words = ("--base-image", f"docker://{IMAGE}", *mirror)
    lumicontainer("init", "mine", *words, cwd=tmp_path, code=0)
    layer = tmp_path / "mine/layers/mine-base/layer.yaml"
    base = layer.read_text()
    name = IMAGE.partition(":")[0]
    assert re.search(rf'docker_image: "{name}@sha256:[0-9a-f]{{64}}"', base), base
    assert 'glibc: "2.36"' in base
    assert 'python: "3.11"' in base
    layer.write_text(base.replace('glibc: "2.36"', 'glibc: "2.31"'))
    # A base that is in the cache is not read.
    done = lumicontainer("build", "mine/mine.yaml", "--rebuild", *mirror, cwd=tmp_path, code=0)
    warning = "layer 'mine-base', under 'provides': glibc: 2.31 in the layer, 2.36 in the image"
    assert f"warning: {warning}\n" in done.stderr
    inside(tmp_path / "mine.sif", "mine")
