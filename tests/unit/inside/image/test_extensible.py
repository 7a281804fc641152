"""Virtual environments made in an image see its packages where they ask for the system's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.image.extensible import VENVS, folder, home, line_of_venvs

SEES = "import importlib.util as u; print(bool(u.find_spec('of_the_image')))"


def made(path: Path, *options: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *options, path], check=True)
    return path


def packages(environment: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / version / "site-packages"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Make the environment that an image's Python is, with a package."""
    environment = made(tmp_path / "image")
    (packages(environment) / "of_the_image.py").touch()
    return environment


def sees(environment: Path, line: str) -> bool:
    """Return whether an environment sees the package, where its ``site`` reads a line."""
    (packages(environment) / VENVS).write_text(line)
    command = [environment / "bin/python3", "-I", "-c", SEES]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout == "True\n"


def test_an_environment_of_a_user_sees_the_packages_of_the_image(
    image: Path, tmp_path: Path
) -> None:
    line = line_of_venvs(str(image), sys.base_prefix, str(packages(image)))
    assert sees(made(tmp_path / "own"), line)


def test_the_base_python_takes_nothing_from_it(image: Path, tmp_path: Path) -> None:
    own = made(tmp_path / "own")
    assert not sees(own, line_of_venvs(str(image), str(own), str(packages(image))))


def test_the_packages_of_a_user_win_over_those_of_the_image(image: Path, tmp_path: Path) -> None:
    own = made(tmp_path / "own")
    (packages(own) / "of_the_image.py").touch()
    (packages(own) / VENVS).write_text(
        line_of_venvs(str(image), sys.base_prefix, str(packages(image)))
    )
    where = "import of_the_image; print(of_the_image.__file__)"
    command = [own / "bin/python3", "-I", "-c", where]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith(str(packages(own)))


def test_the_file_belongs_where_the_base_python_looks_first(image: Path) -> None:
    base = Path(home(str(image))) / Path(sys.executable).name
    found = "import json, site; print(json.dumps(site.getsitepackages()))"
    printed = subprocess.run([base, "-I", "-c", found], check=True, capture_output=True).stdout
    assert folder(str(image)) == json.loads(printed)[0]
