"""All that a project says about its packages is carried, or named."""

import pytest

from .conftest import Import, notes, rows
from .shell.test_losses import missing

PROJECT = '[project]\nname = "p"\nversion = "0"\ndependencies = ["fork", "rich", "torch"]\n'


@pytest.mark.parametrize(
    "place",
    [
        'git = "https://example.org/fork.git", rev = "v1"',
        'url = "https://example.org/fork.git"',
    ],
)
def test_a_source_of_poetry_is_the_source(imported: Import, place: str) -> None:
    text = f"{PROJECT}[tool.poetry.dependencies]\nfork = {{ {place} }}\n"
    draft = imported("pyproject.toml", text)
    assert ([*draft.python], missing(draft)) == (["rich"], ["https://example.org/fork.git"])


@pytest.mark.parametrize(
    "place", ['{ path = "libs/fork" }', '{ source = "corp" }', '[{ git = "x" }]']
)
def test_a_place_of_poetry_that_no_index_is_stays_out(imported: Import, place: str) -> None:
    text = (
        f"{PROJECT}[tool.poetry.dependencies]\nfork = {place}\nrich = {{ extras = ['jupyter'] }}\n"
        '[[tool.poetry.source]]\nname = "corp"\nurl = "https://example.org/simple"\n'
    )
    draft = imported("pyproject.toml", text)
    assert [*draft.python] == ["rich"]
    assert missing(draft)[0] == "fork"


@pytest.mark.parametrize(
    "table",
    [
        '[tool.uv]\noverride-dependencies = ["rich==13.0"]\n',
        '[tool.uv]\nconstraint-dependencies = ["rich<14"]\n',
        '[tool.pdm.resolution.overrides]\nrich = "13.0"\n',
    ],
)
def test_limits_of_versions_are_not_lost_without_a_word(imported: Import, table: str) -> None:
    assert notes(imported("pyproject.toml", PROJECT + table)) == [
        "name the versions that it limits under packages.python"
    ]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ('[tool.uv]\ndev-dependencies = ["pytest"]\n', "tool.uv.dev-dependencies"),
        ('[tool.pdm.dev-dependencies]\ntest = ["pytest"]\n', "tool.pdm.dev-dependencies.test"),
        ('[tool.poetry.group.docs.dependencies]\nmkdocs = "*"\n', "tool.poetry.group.docs"),
        ('[tool.hatch.envs.lint]\ndependencies = ["ruff"]\n', "tool.hatch.envs.lint"),
    ],
)
def test_groups_of_tools_are_named(imported: Import, table: str, name: str) -> None:
    draft = imported("pyproject.toml", PROJECT + table)
    assert name in [text for _, outcome, text in rows(draft) if outcome == "not needed"]


@pytest.mark.parametrize(("versions", "rows_of_python"), [(">=3.12", 1), (">=3.9,<4", 0)])
def test_another_python_is_said(imported: Import, versions: str, rows_of_python: int) -> None:
    text = PROJECT.replace("version", f'requires-python = "{versions}"\nversion')
    draft = imported("pyproject.toml", text)
    noted = [each for each in draft.lines if each.note == f"{versions} was asked for"]
    assert len(noted) == rows_of_python


def test_a_condition_of_an_extra_in_a_lock_is_a_choice(imported: Import) -> None:
    text = (
        'lock-version = "1.0"\ncreated-by = "x"\nextras = ["gpu"]\n'
        '[[packages]]\nname = "rich"\nversion = "13.0"\nmarker = "\'gpu\' in extras"\n'
        '[[packages.wheels]]\nurl = "https://example.org/rich-13.0-py3-none-any.whl"\n'
        f'hashes = {{ sha256 = "{"0" * 64}" }}\n'
    )
    (row,) = imported("pylock.toml", text).lines
    assert (row.text, row.note) == ("rich", "name what you need of it under packages.python")


@pytest.mark.parametrize(
    ("package", "carried"),
    [
        ("https://example.org/conda/linux-64/acme_lib-1.0-py311_0.conda", []),
        ("https://example.org/conda-forge/linux-64/acme_lib-1.0-py311_0.conda", ["acme-lib==1.0"]),
        ("https://example.org/conda/noarch/rich-13.0-pyhd8_0.conda", ["rich==13.0"]),
        ("acme::acme-lib=1.0=py311_0", []),
        ("conda-forge/linux-64::acme-lib=1.0=py311_0", ["acme-lib==1.0"]),
        ("hdf5=1.14=mpi_mpich_h0", []),
        ("h5py>=3.11=mpi_openmpi*", []),
        ("h5py>=3.11 nompi_*", ["h5py>=3.11"]),
    ],
)
def test_a_package_of_conda_is_taken_from_pypi_only_if_its_name_there_is_known(
    imported: Import, package: str, carried: list[str]
) -> None:
    draft = imported("spec.txt", f"@EXPLICIT\n{package}\n")
    assert ([*draft.python], [*draft.apt]) == (carried, [])
    assert len(draft.missing()) == (not carried)


def test_what_conda_list_prints_is_a_list_of_conda(imported: Import) -> None:
    text = (
        "# packages in environment at /opt/conda:\n#\n# Name   Version   Build  Channel\n"
        "_libgcc_mutex   0.1   conda_forge   conda-forge\n"
        "scipy    1.13.0   py311h64a7726_0\n"
        "rich-tool   1.2   pypi_0   pypi\n"
    )
    draft = imported("list.txt", text)
    assert ([*draft.python], missing(draft)) == (["scipy==1.13.0", "rich-tool==1.2"], [])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("${PRIVATE}", "it has a variable without a known value"),
        ("rich==${VERSION}", "it has a variable without a known value"),
        ("file:///opt/w/rich-13.0-py3-none-any.whl", "it is a file, not the name of a package"),
    ],
)
def test_a_line_of_requirements_says_why_it_is_not_carried(
    imported: Import, line: str, why: str
) -> None:
    assert notes(imported("requirements.txt", f"{line}\n")) == [why]


def test_a_repository_may_have_an_address_of_ssh(imported: Import) -> None:
    draft = imported("Dockerfile", "FROM debian\nADD git@example.org:x/y.git#main /src\n")
    assert missing(draft) == ["https://example.org/x/y.git"]


def test_an_environment_that_a_definition_enters_is_the_layers(imported: Import) -> None:
    text = "Bootstrap: docker\nFrom: debian\n%environment\n  . /opt/env/bin/activate\n"
    assert missing(imported("mine.def", text)) == []


def test_the_priority_of_channels_is_not_missing(imported: Import) -> None:
    text = "channels: [conda-forge]\nchannel_priority: strict\ndependencies: [scipy]\n"
    draft = imported("environment.yml", text)
    assert ([*draft.python], missing(draft)) == (["scipy"], [])
