"""Images of imported files hold and do what the files say."""

from pathlib import Path

from ..cli.conftest import succeeded
from ..conftest import ROOT
from .conftest import lumicontainer

CASES = ROOT / "tests/imports"


def built(file: str, folder: Path) -> Path:
    """Import a file and build what is written; return the image."""
    done = succeeded(lumicontainer("import", CASES / file, "--name", "mine", cwd=folder))
    *_, command = done.stderr.splitlines()
    image = lumicontainer(*command.split()[1:], "-q", cwd=folder)
    assert (image.returncode, image.stderr) == (0, "")
    assert image.stdout == f"{folder / 'mine.sif'}\n"
    return folder / "mine.sif"


def test_an_image_of_a_dockerfile_has_its_files_packages_and_variables(tmp_path: Path) -> None:
    image = built("small/Dockerfile", tmp_path)
    done = lumicontainer("run", image, "--", "python3", "/app/main.py")
    assert done.stdout == 'word = "hello"\nstyle = "two words"\n\n', done.stderr
    assert lumicontainer("run", image, "--", "jq", "--version").returncode == 0


def test_an_image_of_a_definition_has_its_files_packages_and_variables(tmp_path: Path) -> None:
    image = built("small-def/small.def", tmp_path)
    assert lumicontainer("run", image, "--", "sum", "2", "3").stdout == "5\n"
    assert lumicontainer("run", image, "--", "sh", "-c", "cat $NOTES").stdout == "two notes\n"
