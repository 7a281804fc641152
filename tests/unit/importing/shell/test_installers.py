"""The packages of an installation are carried, and nothing after an unknown option."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.read import reader_of

from ..conftest import Import

PACKAGES = ("einops", "polars", "rich", "tqdm", "wandb", "datasets")
FILES = ("install.sh", "notes.md", "train")
SUFFIXES = ("txt", "in", "toml", "lock", "whl")
word = st.text(string.ascii_lowercase, min_size=1, max_size=8)
TOOLS = (
    "pip install",
    "pip3 --no-cache-dir install",
    "sudo -H python3 -m pip install",
    "uv pip install",
)


@st.composite
def arguments(draw: st.DrawFn) -> tuple[list[str], set[str], bool]:
    """Draw the words of an installation, its packages, and whether an option is unknown."""
    words: list[str] = []
    packages: set[str] = set()
    is_unknown = False
    for kind in draw(st.lists(st.sampled_from("pfvuxs"), max_size=8)):
        if kind == "p":
            name = draw(st.sampled_from(PACKAGES))
            packages.add(name)
            words.append(name)
        elif kind == "f":
            words.append(draw(st.sampled_from(("-q", "--upgrade", "-U"))))
        elif kind == "v":
            option = draw(st.sampled_from(("-c", "--target", "-i", "--index-url", "--prefix")))
            equals = option.startswith("--") and draw(st.booleans())
            value = draw(word)
            words += [f"{option}={value}"] if equals else [option, value]
        elif kind == "u":
            is_unknown = True
            words += [f"--x{draw(word)}-option", draw(word)]
        elif kind == "s":
            words.append(f"{draw(word)}.{draw(st.sampled_from(SUFFIXES))}")
        else:
            words.append(draw(st.sampled_from(FILES)))
    return words, packages, is_unknown


@pytest.mark.slow
@given(st.sampled_from(TOOLS), arguments())
def test_only_names_of_packages_are_carried(
    tmp_path_factory: pytest.TempPathFactory, tool: str, drawn: tuple[list[str], set[str], bool]
) -> None:
    words, packages, is_unknown = drawn
    folder = tmp_path_factory.getbasetemp() / "context"
    folder.mkdir(exist_ok=True)
    for name in FILES:
        (folder / name).write_text("echo\n")
    (folder / "Dockerfile").write_text(f"FROM debian\nRUN {tool} {' '.join(words)}\n")
    draft = Draft(folder, Goal("cpu", "debian bookworm", "3.11"), "mine")
    reader_of(Path("Dockerfile"))(draft, "Dockerfile")
    assert {*draft.python} == (set() if is_unknown else packages)
    assert bool(draft.missing()) >= is_unknown
    assert not draft.script


@pytest.mark.parametrize(
    "command",
    [
        "pip --no-cache-dir install polars",
        "/opt/conda/bin/pip3 install polars",
        "sudo -H -u root /usr/bin/python3.10 -I -m pip install polars",
        "env A=b nice -n 5 pip install polars || true",
        "A=b B='c d' time -p pip install polars >/dev/null 2>&1",
        "timeout 600 pip install -q polars | tee /tmp/log",
        "yes | pip install polars",
        "apt-get update && pip install polars || true",
        "bash -lc 'pip install polars'",
        'sh -c "pip install polars && pip cache purge"',
        "conda run -n base --no-capture-output pip install polars",
        "uv --quiet pip install --system polars",
        "uv add polars",
        "micromamba run -n base uv pip install polars",
        "conda install -y -q -c conda-forge polars",
        "su - user -c 'pip install --user polars'",
        "gosu user pip install polars",
        'eval "$(conda shell.bash hook)" && conda activate base && pip install polars',
        "source ~/.bashrc && pip install polars",
        "pip install $EXTRA polars",
    ],
)
def test_a_command_is_known_in_each_of_its_forms(dockerfile: Import, command: str) -> None:
    draft = dockerfile(f"ARG EXTRA=\nRUN {command}")
    assert ([*draft.python], draft.script, draft.missing()) == (["polars"], [], [])


@pytest.mark.parametrize(
    ("words", "package"),
    [("accelerate>=0.20.3", "accelerate>=0.20.3"), ("numpy>=1.26,<3 >log", "numpy<3,>=1.26")],
)
def test_a_version_without_quotes_is_no_redirection(
    dockerfile: Import, words: str, package: str
) -> None:
    assert [*dockerfile(f"RUN pip install {words}").python] == [package]


@pytest.mark.parametrize(
    "command",
    [
        "uv pip install --requirements none.txt --frob dev",
        "pip install --frob=1 polars",
        "apt-get install --frob jq",
        "conda install -y --frob x polars",
        "uv add --frob polars",
    ],
)
def test_after_an_unknown_option_nothing_of_the_line_is_carried(
    dockerfile: Import, command: str
) -> None:
    draft = dockerfile(f"RUN {command}")
    assert (draft.python, draft.apt) == ({}, {})
    assert [each.missing for each in draft.missing()] == [command]


def test_an_option_and_a_group_are_no_packages(dockerfile: Import) -> None:
    draft = dockerfile(
        "COPY requirements.txt /tmp/\n"
        "RUN uv pip install --requirements /tmp/requirements.txt --group dev",
        **{"requirements.txt": "polars\n"},
    )
    assert [*draft.python] == ["polars"]
    assert [each.missing for each in draft.missing()] == ["--group dev"]
