"""The user's own code is built with what it names for that, and no other package."""

from pathlib import Path

import pytest

from lumicontainer.extending.facts import Facts
from lumicontainer.extending.install.backend import wheels_of_backend

from ....packages import write_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    write_wheel(tmp_path, "backend", "1.0", "helper", "absent>=1")
    write_wheel(tmp_path, "helper", "1.0")
    write_wheel(tmp_path, "other", "1.0")
    write_wheel(tmp_path, "editables", "1.0")
    return [*tmp_path.glob("*.whl")]


@pytest.mark.parametrize(
    ("project", "names"),
    [
        ('[build-system]\nrequires = ["Backend>=1"]\n', {"backend", "helper"}),
        ("[build-system]\nrequires = [\"other; python_version < '3'\"]\n", set()),
        ("[project]\nname = 'x'\n", set()),
        ('[build-system]\nrequires = ["hatchling"]\n', {"editables"}),
        ("not TOML", set()),
        (None, set()),
    ],
)
def test_a_build_gets_the_packages_that_it_names(
    tmp_path: Path, wheels: list[Path], project: str | None, names: set[str]
) -> None:
    if project is not None:
        (tmp_path / "pyproject.toml").write_text(project)
    chosen = wheels_of_backend(tmp_path, wheels, Facts("3.11", {}))
    assert {each.name.partition("-")[0] for each in chosen} == names


@pytest.mark.parametrize(
    ("marker", "is_chosen"),
    [
        ("platform_version == 'é'", False),
        ("python_version ~= 'abc'", False),
        ("os_name ~= '1'", False),
        ("python_version == '3.9'", True),
        ("python_version > '3.9'", False),
    ],
)
def test_a_marker_counts_for_the_python_of_the_image_or_not_at_all(
    tmp_path: Path, marker: str, is_chosen: bool
) -> None:
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = ["backend"]\n')
    write_wheel(tmp_path, "backend", "1.0", f"helper; {marker}")
    write_wheel(tmp_path, "helper", "1.0")
    chosen = wheels_of_backend(tmp_path, [*tmp_path.glob("*.whl")], Facts("3.9", {}))
    names = {each.name.partition("-")[0] for each in chosen}
    assert names == {"backend", *(["helper"] if is_chosen else [])}
