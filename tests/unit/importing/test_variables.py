"""Variables have the values that Docker gives them, or are not carried."""

import pytest

from .conftest import Import, notes


def test_a_line_knows_only_the_values_of_earlier_lines(dockerfile: Import) -> None:
    text = "ENV VERSION=1\nENV VERSION=2 OTHER=$VERSION\nRUN pip install rich==$VERSION"
    draft = dockerfile(text)
    assert draft.environment == {"VERSION": "2", "OTHER": "1"}
    assert [*draft.python] == ["rich==2"]


def test_a_folder_of_the_same_line_is_not_known(dockerfile: Import) -> None:
    draft = dockerfile("ENV TOOLS=/opt/tools PATH=$TOOLS/bin:$PATH")
    assert (draft.path, len(notes(draft))) == ([], 1)


def test_a_variable_wins_over_an_argument(dockerfile: Import) -> None:
    draft = dockerfile("ENV VERSION=1\nARG VERSION=2\nRUN pip install rich==$VERSION")
    assert [*draft.python] == ["rich==1"]
    assert not draft.parameters


@pytest.mark.parametrize("value", ["'$A'", r"\$A", r'"\$A"'])
def test_what_docker_does_not_replace_is_not_replaced(dockerfile: Import, value: str) -> None:
    draft = dockerfile(f"ENV A=1\nENV B={value}")
    assert draft.environment == {"A": "1"}
    assert len(draft.missing()) == 1


def test_folders_appended_to_the_images_are_said_to_come_before(dockerfile: Import) -> None:
    draft = dockerfile("ENV PATH=$PATH:/opt/a/bin\nENV PATH=/opt/b/bin:$PATH")
    first, second = (each.note for each in draft.lines[-2:])
    assert "before" in first
    assert "before" not in second
