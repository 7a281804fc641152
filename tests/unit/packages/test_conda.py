"""Packages of conda mean the same to each command that reads them."""

from pathlib import Path

import pytest

from lumicontainer.errors import Problems
from lumicontainer.extending.reading.conda import read_dependencies
from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.lists.conda import read_environment
from lumicontainer.packages.conda import CondaPackage, pypi_name, read_package, reason_against


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("numpy", ""),
        ("numpy *", ""),
        ("numpy=*=py311_0", ""),
        ("numpy=1", "==1.*"),
        ("numpy=1.26.4", "==1.26.4.*"),
        ("numpy=1.26.*", "==1.26.*"),
        ("numpy 1.26.*", "==1.26.*"),
        ("numpy==1.26.4", "==1.26.4"),
        ("numpy 1.26.4", "==1.26.4"),
        ("numpy=1.26.4=py311h64a7726_0", "==1.26.4"),
        ("numpy==1.26.4=py311h64a7726_0", "==1.26.4"),
        ("numpy 1.26.4 py311h64a7726_0", "==1.26.4"),
        ("conda-forge::numpy>=1.2, <2", ">=1.2,<2"),
        ("conda-forge/linux-64::numpy!=1.3", "!=1.3"),
    ],
)
def test_versions_are_those_that_conda_means(text: str, version: str) -> None:
    package = read_package(text)
    assert package
    assert (package.name, package.version) == ("numpy", version)


@pytest.mark.parametrize(
    "text", ["", "numpy=1.2|1.3", "numpy[version='>=1']", "-c", "a b c d", "numpy=>=1", "numpy ="]
)
def test_what_pip_cannot_say_is_no_package(text: str) -> None:
    assert read_package(text) is None


def test_a_url_of_an_explicit_list_has_the_version_in_its_name() -> None:
    url = "https://channel.example/main/linux-64/scikit-learn-1.5.0-py311he08f58d_1.conda#0123abc"
    package = CondaPackage("scikit-learn", "==1.5.0", "py311he08f58d_1", "main")
    assert read_package(url) == package
    assert read_package("https://channel.example/a.conda") is None


def test_a_build_for_python_has_its_name_in_pypi() -> None:
    assert pypi_name(CondaPackage("some-tool", "", "pyhd8ed1ab_0")) == "some-tool"
    assert pypi_name(CondaPackage("some-tool", "", "pypi_0")) == "some-tool"
    assert pypi_name(CondaPackage("some-tool", "", "h27087fc_0")) == ""


def test_a_build_for_mpi_is_not_in_pypi() -> None:
    assert reason_against(CondaPackage("h5py", "", "mpi_mpich*"))
    assert not reason_against(CondaPackage("h5py", "", "nompi_py311h4ae7b9d_100"))


ENVIRONMENT = """\
dependencies:
  - _libgcc_mutex=0.1=main
  - openssl=3.0.13=h7f8727e_0
  - mkl=2023.1.0
  - pip=24.0
  - numpy=1.26.4
  - ruamel.yaml=0.18.6=py311h459d7ec_0
"""


def test_import_and_extend_take_the_same_packages_of_an_environment(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(ENVIRONMENT)
    draft = Draft(tmp_path, Goal("cpu", "debian bookworm", "3.11"), "mine")
    read_environment(draft, "environment.yml")
    problems = Problems()
    added = read_dependencies(ENVIRONMENT, "environment.yml", problems)
    assert [each.text for each in added.lines] == [*draft.python]
    assert [*draft.python] == ["numpy==1.26.4.*", "ruamel.yaml==0.18.6"]
    assert [*problems.noted, *draft.missing()] == []
