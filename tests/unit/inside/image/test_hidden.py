"""A package that hides one of the image is named with both versions."""

import json
from pathlib import Path

import pytest

from ..conftest import lay_out, run

pytestmark = pytest.mark.slow

BUILT = {"python": {"numpy": "2.3.1", "Foo_Bar": "1.0", "same": "3"}, "system": {}}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    home = lay_out(tmp_path / "image").resolve().parents[1]
    (home / "packages.json").write_text(json.dumps(BUILT))
    return home


def install(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
    return folder


def test_lumi_entry_names_what_pythonpath_hides(image: Path, tmp_path: Path) -> None:
    names = ("numpy-1.26.4.dist-info", "foo_bar-2.0-py3.11.egg-info", "same-3.dist-info", "other")
    own = install(tmp_path / "own", *names, "more-1.dist-info")
    done = run(image / "bin/lumi-entry", "--", "true", env={"PYTHONPATH": f"/nowhere:{own}"})
    assert done.stderr == (
        f"warning: packages of the image are hidden by PYTHONPATH={own}: "
        "Foo_Bar 2.0 hides 1.0, numpy 1.26.4 hides 2.3.1\n"
    )


def test_a_folder_that_hides_nothing_is_not_named(image: Path, tmp_path: Path) -> None:
    own = install(tmp_path / "own", "same-3.dist-info", "numpy.dist-info")
    done = run(image / "bin/lumi-entry", "--", "true", env={"PYTHONPATH": str(own)})
    assert done.stderr == ""


def test_lumi_verify_says_so_before_the_hint_of_a_check_that_fails(
    image: Path, tmp_path: Path
) -> None:
    (image / "checks/t").mkdir(parents=True)
    (image / "checks/t/a.sh").write_text("exit 1\n")
    row = {"name": "t/a", "file": "checks/t/a.sh", "summary": "s", "level": "quick"}
    row |= {"hint": "rebuild the image", "timeout_seconds": 60}
    (image / "checks.json").write_text(json.dumps([row]))
    own = install(tmp_path / "own", "numpy-1.26.4.dist-info")
    env = {"PYTHONPATH": str(own), "TMPDIR": str(tmp_path)}
    done = run(image / "bin/lumi-verify", env=env)
    first = f"packages of the image are hidden by PYTHONPATH={own}: numpy 1.26.4 hides 2.3.1"
    assert f"warning: {first}\n" in done.stderr
    hint = f"first start without PYTHONPATH={own}, which hides packages; then rebuild the image"
    assert f"   hint: {hint}\n" in done.stderr
