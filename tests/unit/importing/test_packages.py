"""Packages that other tools install become a layer's packages, or are reported as not carried."""

from pathlib import Path

import pytest

from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.lists.requirements import read_requirements

from .conftest import Import, notes, rows

UNKNOWN = "the option '{}' of conda is not known, so nothing of this line is carried"
CONDA = "name: x\ndependencies: [polars]\n"


@pytest.mark.parametrize(
    "words",
    [
        "conda env create --file=environment.yml",
        "mamba env update -f=environment.yml",
        "micromamba install -yqnbase -fenvironment.yml",
        "conda env update --name base --prune",
    ],
)
def test_each_form_of_an_environment_of_conda_is_read(dockerfile: Import, words: str) -> None:
    draft = dockerfile(f"COPY environment.yml .\nRUN {words}", **{"environment.yml": CONDA})
    assert draft.python == {"polars": None}
    assert rows(draft)[1] == (3, "carried", words)


def test_specs_of_conda_are_read_from_a_text_file(dockerfile: Import) -> None:
    specs = "# platform: linux-64\npolars=1.2.*=py3\nhttps://example.org/a.conda\n"
    words = "conda install --yes --file requirements.txt numpy"
    text = f"COPY requirements.txt /tmp/\nWORKDIR /tmp\nRUN {words}"
    draft = dockerfile(text, **{"requirements.txt": specs})
    assert [*draft.python] == ["polars==1.2.*", "numpy"]
    assert rows(draft)[2:] == [
        (4, "carried", words),
        (2, "carried", "polars=1.2.*=py3"),
        (3, "not carried", "https://example.org/a.conda"),
        (4, "carried", "numpy"),
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("conda install --no-deps numpy", UNKNOWN.format("--no-deps")),
        ("conda create --clone base", UNKNOWN.format("--clone")),
        ("conda env create -f", UNKNOWN.format("-f")),
        ("conda env create -f other.yml", "no line copies it into the image"),
        ("conda env create", "no line copies it into the image"),
        ("conda env create -f a.yml", "expected an environment of conda: a.yml"),
    ],
)
def test_a_command_of_conda_that_cannot_be_read_is_not_carried(
    dockerfile: Import, words: str, why: str
) -> None:
    draft = dockerfile(f"COPY a.yml .\nRUN {words} && id", **{"a.yml": "a: b\n"})
    assert rows(draft)[1:] == [(3, "not carried", words), (3, "carried", "id")]
    assert notes(draft) == [why]
    assert draft.python == {}


@pytest.mark.parametrize("text", ["apt-get install -y", "pip install -q", "conda create -n x"])
def test_a_command_that_installs_nothing_is_not_needed(dockerfile: Import, text: str) -> None:
    assert rows(dockerfile(f"RUN {text}")) == [(2, "not needed", text)]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("dependencies:\n- pip: numpy", "dependencies:"),
        ("dependencies:\n- pip: {a: b}", "dependencies:"),
        ("dependencies:\n- pip: [[a], numpy]", "dependencies:"),
        ("dependencies:\n- [a]\n- numpy", "dependencies:"),
        ("dependencies: []\nvariables: {A: [1, 2], B: 1}", "A"),
        ("dependencies: []\nvariables: 1", "variables:"),
    ],
)
def test_a_value_of_another_kind_is_not_carried(imported: Import, text: str, refused: str) -> None:
    draft = imported("environment.yml", text)
    assert [text for _, outcome, text in rows(draft) if outcome == "not carried"] == [refused]
    assert draft.environment in ({}, {"B": "1"})


@pytest.mark.parametrize(
    "requirement", ['numpy; os_name ~= "x"', "a @ https://[x/y", "git+https://a@", "-r \0"]
)
def test_a_requirement_that_cannot_be_judged_is_not_carried(
    imported: Import, requirement: str
) -> None:
    assert rows(imported("requirements.txt", requirement)) == [(1, "not carried", requirement)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_requirements_are_decoded_as_pip_does(
    imported: Import, tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "more.txt").write_bytes("numpy\r\nörx\r\n".encode(encoding))
    draft = imported("requirements.txt", "-r more.txt")
    assert rows(draft)[1:] == [(1, "carried", "numpy"), (2, "not carried", "örx")]


@pytest.mark.parametrize(
    ("requirement", "missing"),
    [
        ("bitsandbytes", False),
        ("bitsandbytes>=0.43", False),
        ("bitsandbytes==0.45.2", True),
        ("bitsandbytes<0.46", True),
        ("mamba-ssm", True),
        ("causal_conv1d>=1.4", True),
    ],
)
def test_a_package_that_has_no_code_for_amd_s_gpus_is_missing(
    tmp_path: Path, requirement: str, missing: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement)
    draft = Draft(tmp_path, Goal("rocm", "ubuntu noble", "3.12"), "mine")
    read_requirements(draft, "requirements.txt")
    assert [each.missing for each in draft.missing()] == [requirement] * missing
    assert list(draft.python) == [requirement] * (not missing)


def test_an_old_version_for_nvidia_s_gpus_is_carried_elsewhere(imported: Import) -> None:
    draft = imported("requirements.txt", "bitsandbytes==0.45.2\n")
    assert list(draft.python) == ["bitsandbytes==0.45.2"]
