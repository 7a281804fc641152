"""Files of ``init`` can be built as they are, and replace no others."""

from pathlib import Path

import pytest

from ..schemas import schema_errors
from ..unit.image.test_survey import LUMI, image_of
from .conftest import Run, refused, succeeded
from .test_import import files

WRITTEN = [
    "demo/demo.yaml",
    "demo/layers/demo/checks/demo.sh",
    "demo/layers/demo/install.sh",
    "demo/layers/demo/layer.yaml",
]


def test_it_writes_a_recipe_and_a_layer_and_the_next_steps(
    lumicontainer: Run, tmp_path: Path
) -> None:
    done = succeeded(lumicontainer("init", "demo", cwd=tmp_path))
    assert sorted(done.stdout.splitlines()) == WRITTEN == sorted(files(tmp_path))
    for name in ("demo/demo.yaml", "demo/layers/demo/layer.yaml"):
        assert schema_errors(tmp_path / name) == []
    for line in ("check demo/demo.yaml", "build demo/demo.yaml", "run demo.sif -- demo"):
        assert f"\n  lumicontainer {line}\n" in f"{done.stderr}\n"
    for words in (["check"], ["check", "--platform", "lumi-g"], ["render"], ["show"]):
        outcome = lumicontainer(*words, "demo/demo.yaml", cwd=tmp_path)
        assert (outcome.returncode, outcome.stderr) == (0, "")


def test_a_second_one_stands_beside_the_first(lumicontainer: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert lumicontainer("init", name, tmp_path / "mine").returncode == 0
    assert lumicontainer("check", tmp_path / "mine/two.yaml").returncode == 0


@pytest.mark.parametrize("name", ["demo/demo.yaml", "demo/layers/demo/install.sh"])
def test_no_file_is_overwritten_or_added(lumicontainer: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("mine")
    refused(lumicontainer("init", "demo", cwd=tmp_path), name)
    assert (tmp_path / name).read_text() == "mine"
    assert [*files(tmp_path)] == [name]


@pytest.mark.parametrize("name", ["demo", "demo/layers", "demo/schemas"])
def test_a_file_where_a_folder_goes_is_refused(
    lumicontainer: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    says = (f"expected a folder, got the file '{name}'\n", "choose another name or another folder")
    refused(lumicontainer("init", "demo", cwd=tmp_path), *says)
    assert [*files(tmp_path)] == [name]


NO_TEXT = ("1.0", "no", "on", "null", "1e5", "2025-01-01")
"""Names that YAML reads as something else than text."""


@pytest.mark.parametrize(
    "name", ["pytorch", "python", "image", "Demo", "../demo", "a b", "", *NO_TEXT]
)
def test_a_name_that_cannot_work_is_refused(lumicontainer: Run, tmp_path: Path, name: str) -> None:
    refused(lumicontainer("init", name, cwd=tmp_path), "hint: ")
    assert files(tmp_path) == {}


def test_a_base_image_is_read_and_its_recipe_is_right(lumicontainer: Run, tmp_path: Path) -> None:
    image = image_of(tmp_path, LUMI)
    succeeded(lumicontainer("init", "demo", "--base-image", image, cwd=tmp_path))
    assert schema_errors(tmp_path / "demo/layers/demo-base/layer.yaml") == []
    for verb in ("check", "lock", "render"):
        outcome = lumicontainer(verb, "demo/demo.yaml", "--platform", "lumi-g", cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
    assert f"\nBootstrap: localimage\nFrom: {image}\n" in outcome.stdout


@pytest.mark.parametrize(
    ("image", "code", "why"), [("no.sif", 3, "No such file"), ("a b.sif", 2, "rename it")]
)
def test_a_base_image_that_cannot_be_a_base_is_refused(
    lumicontainer: Run, tmp_path: Path, image: str, code: int, why: str
) -> None:
    done = lumicontainer("init", "demo", "--base-image", image, cwd=tmp_path)
    refused(done, why, code=code)
    assert files(tmp_path) == {}
