"""Indexes of packages, and packages without a name, are not left out in silence."""

import pytest

from .conftest import Import, notes

URL = "https://packages.example.org/simple"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (f"ENV PIP_EXTRA_INDEX_URL={URL}", f"--extra-index-url {URL}"),
        (f"ENV UV_DEFAULT_INDEX={URL}", f"--default-index {URL}"),
        (f"ARG PIP_INDEX_URL={URL}", f"--index-url {URL}"),
        (f"RUN pip config set global.index-url {URL}", f"--index-url {URL}"),
        (f"RUN pip3 config --user set install.extra_index_url {URL}", f"--extra-index-url {URL}"),
        (f"RUN pip config --global set global.index-url {URL}", f"--index-url {URL}"),
        (f"RUN PIP_INDEX_URL={URL} pip install rich", f"--index-url {URL}"),
        (f"RUN env UV_INDEX={URL} uv pip install rich", f"--index {URL}"),
        (f"RUN export PIP_INDEX_URL={URL}", f"--index-url {URL}"),
        ("RUN export PIP_FIND_LINKS=/wheels", "--find-links /wheels"),
        ("RUN export PIP_INDEX_URL=$(cat /url)", "export PIP_INDEX_URL=$(cat /url)"),
        (
            "RUN pip config set global.index-url $NOT_SET",
            "pip config set global.index-url $NOT_SET",
        ),
    ],
)
def test_an_index_is_missing_however_it_is_set(dockerfile: Import, text: str, missing: str) -> None:
    draft = dockerfile(f"{text}\nRUN pip install polars")
    assert [each.missing for each in draft.missing()] == [missing]
    assert "polars" in draft.python


def test_an_index_of_a_copied_stage_is_missing(imported: Import) -> None:
    draft = imported(
        "Dockerfile",
        f"FROM debian AS first\nENV PIP_INDEX_URL={URL}\nRUN pip install polars\n"
        "FROM debian\nCOPY --from=first /opt/venv /opt/venv\n",
    )
    assert [*draft.python] == ["polars"]
    assert f"--index-url {URL}" in [each.missing for each in draft.missing()]


@pytest.mark.parametrize(
    "text",
    [
        "ENV PIP_NO_CACHE_DIR=1 UV_LINK_MODE=copy PIP_NO_INDEX=0",
        "ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cu121",
        "ARG PIP_INDEX_URL",
        "RUN pip config set global.timeout 60",
    ],
)
def test_a_setting_that_chooses_no_other_index_is_not_needed(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text)
    assert {each.outcome for each in draft.lines[1:]} == {"not needed"}


@pytest.mark.parametrize(
    "text",
    [
        "ENV PIP_INDEX_URL={}",
        "ARG PIP_INDEX_URL={}",
        "RUN pip config set global.index-url {}",
        "RUN PIP_INDEX_URL={} pip install polars",
    ],
)
def test_the_password_of_an_index_is_not_shown(dockerfile: Import, text: str) -> None:
    draft = dockerfile(text.format("https://u:pw@packages.example.org/simple"))
    assert [each.missing for each in draft.missing()] == [f"--index-url {URL}"]
    assert not any("pw@" in each.text for each in draft.lines)


@pytest.mark.parametrize(
    "command",
    ["pip install --dry-run polars", "uv pip install --dry-run rich", "apt-get install -s jq"],
)
def test_a_dry_run_installs_nothing(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"RUN {command}")
    assert (draft.python, draft.apt, draft.missing()) == ({}, {}, [])


@pytest.mark.parametrize(
    ("argument", "command"),
    [
        ("PKG", "pip install $PKG"),
        ("PKG", 'pip install "$PKG"'),
        ("PKG", "pip install -U pip ${PKG}"),
        ("PKG", "pip install polars $PKG"),
        ("PKG=''", "apt-get install -y $PKG"),
        ("PKG", "$PKG"),
    ],
)
def test_a_package_without_a_name_is_missing(
    dockerfile: Import, argument: str, command: str
) -> None:
    draft = dockerfile(f"ARG {argument}\nRUN {command}")
    assert [each.missing for each in draft.missing()] == [command]
    assert notes(draft)[-1] == (
        "PKG has no value: name what it stands for under 'packages' of the layer"
    )


def test_a_file_that_no_line_copies_is_not_read(dockerfile: Import) -> None:
    draft = dockerfile("RUN pip install -r requirements.txt", **{"requirements.txt": "polars\n"})
    assert notes(draft) == ["no line copies it into the image"]
