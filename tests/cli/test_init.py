"""What ``init`` writes can be built as it is, and takes nothing's place."""

from pathlib import Path

import pytest

from ..schemas import schema_errors
from ..unit.test_survey import LUMI, image_of
from .conftest import Run

WRITTEN = [
    "demo/demo.yaml",
    "demo/layers/demo/checks/demo.sh",
    "demo/layers/demo/install.sh",
    "demo/layers/demo/layer.yaml",
]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_writes_a_recipe_and_a_layer_and_says_what_to_do_next(
    lumicontainer: Run, tmp_path: Path
) -> None:
    done = lumicontainer("init", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == WRITTEN
    schemas = [name for name in files(tmp_path) if name.startswith("demo/schemas/")]
    written = [name for name in files(tmp_path) if name.startswith("demo/")]
    assert written == sorted([*WRITTEN, *schemas])
    for name in ("demo/demo.yaml", "demo/layers/demo/layer.yaml"):
        assert schema_errors(tmp_path / name) == []
    for line in ("check demo/demo.yaml", "build demo/demo.yaml", "run demo.sif -- demo"):
        assert f"\n  lumicontainer {line}\n" in f"{done.stderr}\n"
    for verb in ("check", "render", "show"):
        outcome = lumicontainer(verb, "demo/demo.yaml", cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
        assert outcome.stderr == ""


@pytest.mark.parametrize("platform", ["workstation", "lumi-g"])
def test_what_it_writes_is_right_for_each_platform(
    lumicontainer: Run, tmp_path: Path, platform: str
) -> None:
    lumicontainer("init", "demo", tmp_path)
    words = (tmp_path / "demo.yaml", "--platform", platform)
    done = lumicontainer("check", *words)
    assert done.returncode == 0, done.stdout


def test_a_second_one_stands_beside_the_first(lumicontainer: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert lumicontainer("init", name, tmp_path / "mine").returncode == 0
    assert lumicontainer("check", tmp_path / "mine/two.yaml").returncode == 0


@pytest.mark.parametrize("name", ["demo/demo.yaml", "demo/layers/demo/install.sh"])
def test_no_file_is_overwritten_and_none_written(
    lumicontainer: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("mine")
    done = lumicontainer("init", "demo", cwd=tmp_path)
    assert done.returncode == 2
    assert name in done.stderr
    assert (tmp_path / name).read_text() == "mine"
    assert [path for path in files(tmp_path) if path.startswith("demo/")] == [name]


@pytest.mark.parametrize("name", ["demo", "demo/layers", "demo/schemas"])
def test_a_file_in_the_place_of_a_folder_is_refused(
    lumicontainer: Run, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    done = lumicontainer("init", "demo", cwd=tmp_path)
    assert done.returncode == 2
    assert f"where: {name}\n" in done.stderr
    assert "choose another name or another folder" in done.stderr
    assert files(tmp_path / "demo") in ([], [name.removeprefix("demo/")])


@pytest.mark.parametrize("name", ["pytorch", "python", "image", "Demo", "../demo", "a b", ""])
def test_a_name_that_would_not_work_is_refused(
    lumicontainer: Run, tmp_path: Path, name: str
) -> None:
    done = lumicontainer("init", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "hint: " in done.stderr
    assert not (tmp_path / name / "layers").exists() or name == ""


def test_a_base_image_is_read_and_its_recipe_is_right(lumicontainer: Run, tmp_path: Path) -> None:
    image = image_of(tmp_path, LUMI)
    done = lumicontainer("init", "demo", "--base-image", image, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert schema_errors(tmp_path / "demo/layers/demo-base/layer.yaml") == []
    for verb in ("check", "lock", "render"):
        outcome = lumicontainer(verb, "demo/demo.yaml", "--platform", "lumi-g", cwd=tmp_path)
        assert outcome.returncode == 0, outcome.stderr
    assert f"\nBootstrap: localimage\nFrom: {image}\n" in outcome.stdout


def test_a_base_image_that_cannot_be_a_base_is_refused(lumicontainer: Run, tmp_path: Path) -> None:
    for image, why in (("no.sif", "No such file"), ("a b.sif", "rename it")):
        done = lumicontainer("init", "demo", "--base-image", image, cwd=tmp_path)
        assert done.returncode in (2, 3)
        assert why in done.stderr
    assert files(tmp_path) == []
