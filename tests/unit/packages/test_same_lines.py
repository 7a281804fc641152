"""A line means the same to ``import``, ``extend`` and ``lock``, or a verb refuses it."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lumicontainer.core.model.requirements import applies, fault, requirement_lines
from lumicontainer.errors import InputError
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.importing.draft import Draft, Goal
from lumicontainer.importing.read import reader_of

from ...packages import LOCK

PYTHON = "3.11"
ZEROS = "0" * 64
REFUSED = ["refused"]


def meant(lines: Iterable[str]) -> list[str]:
    """Return the requirements that an image of this Python gets, without their markers."""
    requirements = [Requirement(each) for each in lines if applies(each, PYTHON)]
    return [f"{each.name}{each.specifier}{sorted(each.extras) or ''}" for each in requirements]


def by_import(file: Path) -> list[str]:
    draft = Draft(file.parent, Goal("cpu", "debian bookworm", PYTHON), "mine")
    reader_of(file)(draft, file.name)
    return (
        REFUSED if any(each.outcome == "not carried" for each in draft.lines) else [*draft.python]
    )


def by_extend(file: Path) -> list[str]:
    try:
        return [*read_additions([], [file], []).lines]
    except InputError as error:
        return [] if error.problems[0].what == "nothing to add" else REFUSED


def by_lock(file: Path) -> list[str]:
    lines = [each.bare for each in requirement_lines(file.read_bytes())]
    return REFUSED if any(fault(each, markers=True) for each in lines) else lines


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("numpy==1.26.4", ["numpy==1.26.4"]),
        ("NumPy >= 1.2, <2  # mine", ["NumPy<2,>=1.2"]),
        ("ray[default, tune]==2.9", ["ray==2.9['default', 'tune']"]),
        ("tomli>=2 ; python_version < '3.12'", ["tomli>=2"]),
        ("tomli>=2 ; python_version < '3.11'", []),
        ("pywin32 ; sys_platform == 'win32'", []),
        ("tomli ; extra == 'more'", []),
        ("tomli ; nosuch == 'more'", REFUSED),
        ("-c more.txt --pre", REFUSED),
        (f"einops==0.8.0 \\\n  --hash=sha256:{ZEROS}", ["einops==0.8.0"]),
        (f"einops==0.8.0 --hash=sha256:{ZEROS} --hash=sha256:{ZEROS}", ["einops==0.8.0"]),
        ("-c more.txt", REFUSED),
        ("--no-such-option", REFUSED),
        ("numpy=1.26", REFUSED),
        ("./nowhere", REFUSED),
        ("-e ./nowhere", REFUSED),
    ],
)
def test_a_line_of_pip_means_the_same_to_each_verb(
    tmp_path: Path, line: str, takes: list[str]
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"{line}\n")
    (tmp_path / "more.txt").write_text("rich\n")
    assert [meant(read(file)) for read in (by_import, by_extend, by_lock)] == [takes] * 3


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("_libgcc_mutex=0.1=main", []),
        ("openssl=3.0.13=h7f8727e_0", []),
        ("mkl=2023.1.0", []),
        ("python=3.11.5=h7a1cb2a_0", []),
        ("pip", []),
        ("cudatoolkit=11.3", []),
        ("gcc_linux-64=12.2", []),
        ("numpy=1.26.4", ["numpy==1.26.4.*"]),
        ("numpy==1.26.4", ["numpy==1.26.4"]),
        ("numpy=1.26.4=py311h64a7726_0", ["numpy==1.26.4"]),
        ("conda-forge::scipy>=1.11,<2", ["scipy<2,>=1.11"]),
        ("msgpack-python=1.0", ["msgpack==1.0.*"]),
        ("pip: [trl==1.0, -r more.txt]", ["trl==1.0", "rich"]),
        ("pip: ['tomli ; python_version < \"3.11\"', rich]", ["rich"]),
        ("pip: [[rich]]", REFUSED),
        ("pip: rich", REFUSED),
        ("some-tool=1", REFUSED),
        ("r-base=4", REFUSED),
        ("numpy=1.2|1.3", REFUSED),
    ],
)
def test_a_line_of_conda_means_the_same_to_import_and_extend(
    tmp_path: Path, line: str, takes: list[str]
) -> None:
    file = tmp_path / "environment.yml"
    file.write_text(f"dependencies:\n  - {line}\n")
    (tmp_path / "more.txt").write_text("rich\n")
    assert [meant(read(file)) for read in (by_import, by_extend)] == [takes] * 2


LOCKED = f"""\
{LOCK}default-groups = ["main"]
[[packages]]
name = "rich"
version = "15.0"
marker = "'main' in dependency_groups"
wheels = [{{ url = "https://x.example/rich-15.0-py3-none-any.whl", hashes = {{ sha256 = "00" }} }}]
[[packages]]
name = "tomli"
version = "2.0"
marker = "python_version < '3.11' or 'dev' in dependency_groups"
wheels = [{{ url = "https://x.example/tomli-2.0-py3-none-any.whl", hashes = {{ sha256 = "00" }} }}]
"""


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("pyproject.toml", "project.dependencies = ['rich', 'x; os_name == \"nt\"']", ["rich"]),
        ("pyproject.toml", "project.dependencies = ['rich', 1]", REFUSED),
        ("pyproject.toml", "project.dependencies = 'rich'", REFUSED),
        ("pylock.toml", LOCKED, ["rich==15.0"]),
        ("pylock.dev.toml", f"{LOCK}[[packages]]\nname='a'\ndirectory={{path='no'}}", REFUSED),
    ],
)
def test_toml_means_the_same_to_import_and_extend(
    tmp_path: Path, name: str, text: str, takes: list[str]
) -> None:
    file = tmp_path / name
    file.write_text(f"{text}\n")
    assert [meant(read(file)) for read in (by_import, by_extend)] == [takes] * 2


def test_what_extend_leaves_out_of_an_environment_is_said(tmp_path: Path) -> None:
    file = tmp_path / "environment.yml"
    file.write_text("dependencies: [rich, cudatoolkit=11.3, openssl]\n")
    (note,) = read_additions([], [file], []).notes
    assert note == f"{file}:1:22: cudatoolkit is left out: it serves NVIDIA's GPUs only"
