"""``run.sh`` is ready for a machine with a GPU, and says so on one that has none."""

import json
from pathlib import Path

import pytest

from lumicontainer.host.recipes import resolve_recipe

from ..programs import run
from . import measure
from .content import HERE, write_content

NO_GPU = """\
__version__ = "2.13.0"
class version:
    cuda = None
class cuda:
    def is_available():
        return False
"""
NAMES = [*measure.PYTORCH, *measure.DEEPSPEED, *measure.UNDER_TORCHRUN]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("content")
    resolved = resolve_recipe(HERE / "nvidia.yaml", platform="nvidia")
    write_content(resolved, folder / "lumicontainer")
    return folder


def test_its_content_has_every_check_that_it_names_for_one_rank_and_any_speed(
    content: Path,
) -> None:
    rows = json.loads((content / "lumicontainer/checks.json").read_text())
    named = [row for row in rows if row["name"] in NAMES]
    assert {row["name"] for row in named} == {*NAMES}
    for row in named:
        assert (content / "lumicontainer" / row["file"]).is_file()
        assert "tasks" not in row.get("needs", {})
        assert not any("minimum" in each for each in row.get("thresholds", {}).values())


def test_it_says_that_a_machine_has_no_gpu(content: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(NO_GPU)
    env = {"PYTHONPATH": str(tmp_path), "LUMICONTAINER_HOME": str(tmp_path / "home")}
    done = run([HERE / "run.sh", content, tmp_path / "results"], env=env)
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "PyTorch 2.13.0, CUDA none"
    assert "error: no GPU" in done.stderr
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "results").exists()
