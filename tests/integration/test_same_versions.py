"""``build``, ``build --locked`` and ``extend`` choose the same versions for the same words."""

import ensurepip
import json
import shutil
from pathlib import Path

import pytest

from lumicontainer.extending.record import read_record

from ..packages import write_wheel
from .conftest import digest, lumicontainer, write_files
from .test_locked import write_source

WORDS = ("top", "other>=1", "old<2", "stamped")
VERSIONS = {
    "top": "2.0",
    "source": "1.0+held",
    "early": "1.0b1",
    "other": "1.0",
    "old": "1.5",
    "stamped": "2.0",
}
STAMPED = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["late>=1"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    ),
    "backend.py": """\
import importlib.metadata, late, pathlib, zipfile

def get_requires_for_build_wheel(settings=None):
    return ["stamp"]

def build_wheel(folder, settings=None, metadata=None):
    try:
        version = importlib.metadata.version("stamp")
    except importlib.metadata.PackageNotFoundError:
        version = "0.0.0"
    name, notes = f"stamped-{version}-py3-none-any.whl", f"stamped-{version}.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("stamped.py", "")
        about = f"Metadata-Version: 2.1\\nName: stamped\\nVersion: {version}\\n"
        wheel.writestr(f"{notes}/METADATA", about)
        wheel.writestr(f"{notes}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{notes}/RECORD", "")
    return name
""",
}
"""A source that has the version of what builds it, as setuptools-scm gives one to others."""
PART = 1 << 20
"""The largest file of a layer, in bytes."""
RECIPE = {
    "same.yaml": "summary: packages by their names\nbase: base\nlayers: [venv, words]\n",
    "layers/base/layer.yaml": (
        "summary: an image of Debian with Python\n"
        "bootstrap: {{cpu: {{agent: localimage, file: {image}, sha256: {sha256}}}}}\n"
        'provides: {{glibc: "2.36", python: "3.11"}}\n'
    ),
    "layers/venv/layer.yaml": "summary: has pip\npath: [/opt/venv/bin]\n",
    "layers/venv/install.sh": (
        "set -euo pipefail\npython3 -m venv --without-pip /opt/venv\n"
        "cat pip.whl.* >pip.whl\n"
        "python3 -m zipfile -e pip.whl /opt/venv/lib/python3.11/site-packages\n"
    ),
    "layers/words/layer.yaml": (
        f"summary: x\nrequires: [venv]\npackages: {{python: {json.dumps(WORDS)}}}\n"
    ),
}


@pytest.fixture
def index(tmp_path: Path) -> dict[str, str]:
    """Offer packages as public indexes have them; return the settings of pip that name them."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder, "top", "1.0")
    write_wheel(folder, "top", "2.0", "source", "early")
    write_wheel(folder, "top", "3.0rc1")
    write_source(folder, "source", tmp_path / "host/canary", seen="/usr/bin/python3")
    write_wheel(folder, "source", "0.9")
    write_wheel(folder, "early", "1.0b1")
    write_wheel(folder, "other", "1.0")
    write_wheel(folder, "other", "2.0b1")
    write_wheel(folder, "old", "1.5")
    write_wheel(folder, "old", "2.5")
    write_files(tmp_path / "stamped-2.0", STAMPED)
    shutil.make_archive(str(folder / "stamped-2.0"), "gztar", tmp_path, "stamped-2.0")
    write_wheel(folder, "stamped", "1.0")
    write_wheel(folder, "late", "1.0")
    write_wheel(folder, "stamp", "2.0")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


@pytest.fixture
def same(small: Path, tmp_path: Path) -> Path:
    """Return a folder with a recipe that names the words, on the image ``small``."""
    folder = write_files(tmp_path / "own", RECIPE)
    base = folder / "layers/base/layer.yaml"
    base.write_text(base.read_text().format(image=small, sha256=digest(small)))
    (pip,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    content = pip.read_bytes()
    for start in range(0, len(content), PART):
        part = folder / f"layers/venv/pip.whl.{start:08}"
        part.write_bytes(content[start : start + PART])
    return folder


def python_packages(image: Path) -> dict[str, str]:
    listed = json.loads(lumicontainer("inspect", image, "--packages", "--json", code=0).stdout)
    return {name: version for name, version in listed["python"].items() if name != "pip"}


def test_three_ways_give_the_same_versions(
    small: Path, same: Path, index: dict[str, str], tmp_path: Path
) -> None:
    options = ("--recipes", same)
    image, locked, added = (tmp_path / name for name in ("same.sif", "locked.sif", "added.sqsh"))
    lumicontainer("build", "same", *options, "--output", image, env=index, code=0)
    lumicontainer("lock", "same", *options, env=index, code=0)
    lumicontainer("extend", small, *WORDS, "-o", added, env=index, code=0)
    # With it, the source would say another version.
    write_wheel(Path(index["PIP_FIND_LINKS"]), "stamp", "9.0")
    lumicontainer("build", "same", *options, "--locked", "--output", locked, env=index, code=0)
    assert python_packages(image) == VERSIONS
    assert python_packages(locked) == VERSIONS
    assert read_record(added).packages == VERSIONS
    assert not (tmp_path / "host/canary").exists()
