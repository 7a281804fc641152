"""A pyproject.toml says its name and its requirements, or what is wrong with them."""

import pytest

from lumicontainer.errors import Fault
from lumicontainer.packages.project import DEPENDENCIES, listed_requirements, stated_name


def listed(project: object) -> list[str]:
    """Return the requirements of a table, or what is wrong with it."""
    rows = listed_requirements({"project": project}, DEPENDENCIES)
    return [each.what if isinstance(each, Fault) else each for each in rows]


def test_requirements_come_from_the_table() -> None:
    assert listed({"dependencies": ["a==1", "b"]}) == ["a==1", "b"]
    assert listed({}) == []


@pytest.mark.parametrize(
    ("project", "faults"),
    [
        pytest.param("text", 1, id="a text in place of the table"),
        pytest.param({"dependencies": "a"}, 1, id="a text in place of the list"),
        pytest.param({"dependencies": [1, {}]}, 2, id="two entries that are no texts"),
    ],
)
def test_each_thing_of_another_type_is_named(project: object, faults: int) -> None:
    texts = listed(project)
    assert [text.partition(" ")[0] for text in texts] == ["expected"] * faults


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"project": {"name": "mine"}}, "mine"),
        ({"tool": {"poetry": {"name": "mine"}}}, "mine"),
        ({"project": {"name": "../mine"}}, ""),
        ({"project": [], "tool": {"poetry": 1}}, ""),
        ({}, ""),
    ],
)
def test_the_name_comes_from_the_project_or_from_poetry(data: dict[str, object], name: str) -> None:
    assert stated_name(data) == name
