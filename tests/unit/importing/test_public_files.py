"""Forms of public files by which an image lacked something that no report named."""

import pytest

from lumicontainer.importing.draft import Draft

from .conftest import Import, rows


def missing(draft: Draft) -> list[str]:
    return [each.missing for each in draft.missing()]


def outcomes(draft: Draft) -> dict[str, str]:
    return {text: outcome for _, outcome, text in rows(draft)}


@pytest.mark.parametrize(
    "command",
    [
        "uv pip sync --system list.txt",
        "~/.local/bin/uv pip install -r list.txt",
        "./bin/micromamba install -y polars",
    ],
)
def test_an_installer_from_another_place_installs_the_same(
    dockerfile: Import, command: str
) -> None:
    copies = "COPY --from=ghcr.io/astral-sh/uv:latest /uv /usr/local/bin/uv\nCOPY list.txt ."
    draft = dockerfile(f"{copies}\nRUN {command}", **{"list.txt": "polars\n"})
    assert (list(draft.python), missing(draft)) == (["polars"], [])


@pytest.mark.parametrize(
    "command", ["uv tool install ruff", "uv run --with rich app", "tox -e py311", "nox", "rye x"]
)
def test_a_tool_that_installs_by_itself_leaves_something_missing(
    dockerfile: Import, command: str
) -> None:
    draft = dockerfile(f"COPY --from=ghcr.io/astral-sh/uv /uv /uvx /bin/\nRUN {command}")
    assert (missing(draft), draft.script) == ([command], [])


@pytest.mark.parametrize(
    ("package", "outcome"),
    [
        ("nvidia-dali-cuda120", "not carried"),
        ("tensorrt", "not carried"),
        ("nvidia-cublas-cu12", "not needed"),
        ("ruamel.yaml", "carried"),
        ("environment.yaml", "not carried"),
    ],
)
def test_a_package_is_judged_by_its_whole_name(
    dockerfile: Import, package: str, outcome: str
) -> None:
    draft = dockerfile(f"RUN pip install {package}")
    assert outcomes(draft) == {package: outcome}
    assert missing(draft) == [package] * (outcome == "not carried")


@pytest.mark.parametrize(
    ("clone", "folder"),
    [
        ("git clone https://a.example/b/tool -b dev --depth 1", "tool"),
        ("git clone --depth=1 https://a.example/b/tool.git -j8 other", "other"),
        ("git -c a.b=c clone -b v2 git@a.example:b/tool.git", "tool"),
        ("git clone --recursive ssh://git@a.example/b/tool.git", "tool"),
    ],
)
def test_a_clone_is_lost_by_the_folder_that_git_makes(
    dockerfile: Import, clone: str, folder: str
) -> None:
    draft = dockerfile(f"RUN {clone} && make -C {folder}\nRUN cd {folder} && make")
    assert draft.script == []
    source = draft.to_pin[0]
    assert source["git"].startswith("https://a.example/b/tool")
    assert source["folder"] == folder


def test_an_archive_is_lost_where_a_pipe_unpacks_it(imported: Import) -> None:
    text = (
        "Bootstrap: docker\nFrom: debian\n%post\n"
        "    wget https://a.example/openmpi-5.0.tar.gz -O - | tar xz -C /tmp\n"
        "    cd /tmp/openmpi-5.0 && ./configure && make install\n"
        "    Rscript -e 'install.packages(\"x\")'\n"
    )
    draft = imported("a.def", text)
    assert "mpich" in draft.layers
    assert draft.script == []
    # What only runs in the folder of what a layer has is still wanted.
    assert missing(draft) == ["Rscript -e 'install.packages(\"x\")'"]


def test_a_program_that_calls_pip_leaves_something_missing(dockerfile: Import) -> None:
    call = 'import subprocess; subprocess.run(["pip", "install", "rich"])'
    draft = dockerfile(f"RUN python3 - <<END\n{call}\nEND")
    assert (len(missing(draft)), draft.script) == (1, [])


def test_a_variable_may_be_exported_behind_its_value(imported: Import) -> None:
    text = "Bootstrap: docker\nFrom: debian\n%environment\n    A=b; export A\n    C=d; export E\n"
    draft = imported("a.def", text)
    assert draft.environment == {"A": "b"}
    assert missing(draft) == ["C=d; export E"]


def test_the_packages_of_a_notebook_image_are_missing(imported: Import) -> None:
    draft = imported("Dockerfile", "FROM quay.io/jupyter/pytorch-notebook:latest\n")
    image = "what the base image quay.io/jupyter/pytorch-notebook:latest has"
    assert missing(draft) == [image]
