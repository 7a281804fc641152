"""Virtual environments made in an image see its packages if they ask for the system's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.image.extensible import VENVS, folder, home, line_of_venvs

pytestmark = pytest.mark.slow

WHERE = "import importlib.util as u; print(getattr(u.find_spec('of_the_image'), 'origin', ''))"


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


def seen_from(environment: Path, line: str) -> str:
    """Return where an environment sees the package, where its ``site`` reads a line."""
    (packages(environment) / VENVS).write_text(line)
    command = [environment / "bin/python3", "-I", "-c", WHERE]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_an_environment_of_a_user_sees_the_packages_of_the_image(
    image: Path, tmp_path: Path
) -> None:
    line = line_of_venvs(str(image), sys.base_prefix, str(packages(image)))
    own = made(tmp_path / "own")
    assert seen_from(own, line) == str(packages(image) / "of_the_image.py")
    (packages(own) / "of_the_image.py").touch()
    assert seen_from(own, line) == str(packages(own) / "of_the_image.py")


def test_the_base_python_takes_nothing_from_it(image: Path, tmp_path: Path) -> None:
    own = made(tmp_path / "own")
    assert seen_from(own, line_of_venvs(str(image), str(own), str(packages(image)))) == ""


def test_the_file_belongs_where_the_base_python_looks_first(image: Path) -> None:
    base = Path(home(str(image))) / Path(sys.executable).name
    program = "import json, site; print(json.dumps(site.getsitepackages()))"
    printed = subprocess.run([base, "-I", "-c", program], check=True, capture_output=True).stdout
    assert folder(str(image)) == json.loads(printed)[0]
