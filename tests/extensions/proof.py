"""Ten training programs get their packages by ``lumicontainer extend``, and train one step.

``make extensions`` runs it: packages of some GB come from the index.
"""

import hashlib
import shutil
from pathlib import Path

import pytest

from ..integration.conftest import lumicontainer

HERE = Path(__file__).parent
IMAGE = HERE.parents[1] / "pytorch-deepspeed.sif"
PROGRAMS = sorted(path.parent.name for path in HERE.glob("*/step.py"))
DIGESTS = "cd /opt/venv && find . -type f -print0 | sort -z | xargs -0 sha256sum"


def packages_of_image(*words: object) -> str:
    """Return one digest of all files of the image's packages, as a container sees them."""
    done = lumicontainer("run", *words, IMAGE, "--", "bash", "-c", DIGESTS)
    assert done.stdout.count("\n") > 10_000, done.stderr
    return hashlib.sha256(done.stdout.encode()).hexdigest()


@pytest.fixture(scope="module")
def untouched() -> str:
    """Return the digest without an extension."""
    return packages_of_image()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_trains_with_its_packages_beside_the_image(
    program: str, tmp_path: Path, untouched: str
) -> None:
    file, folder = tmp_path / "mine.sqsh", HERE / program
    done = lumicontainer("extend", IMAGE, "-r", folder / "requirements.txt", "-o", file)
    assert done.returncode == 0, done.stderr
    print(done.stderr.splitlines()[-2])
    for each in (HERE / "changed.py", folder / "step.py"):
        shutil.copy(each, tmp_path)
    words = ("env", f"HOME={tmp_path}", "HF_HUB_OFFLINE=1", "python3", "step.py")
    done = lumicontainer("run", "--with", file, IMAGE, "--", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("trained: loss ")
    assert packages_of_image("--with", file) == untouched
