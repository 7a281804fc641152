"""Files of other tools, and folders of own code, name packages; every wrong line is reported."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError, Problems
from lumicontainer.extending.reading.additions import Additions, read_additions
from lumicontainer.extending.reading.conda import read_dependencies

from ....packages import LOCK
from ..places import RICH, ZEROS


def read(folder: Path, name: str, text: str) -> Additions:
    (folder / name).write_text(text)
    return read_additions([], [folder / name], [])


HG = "type = 'hg', url = 'https://x.example/mine', commit-id = '0'"
CONDA = """\
dependencies:
  - python=3.11
  - conda-forge::pandas=2.1
  - pytorch >=2.0,<3
  - tqdm
  - scipy=1.11.4=py311h64a7726_0
  - pip
  - pip: [trl==1.0]
"""
FROM_CONDA = "pandas==2.1.* torch<3,>=2.0 tqdm scipy==1.11.4 trl==1.0"


@pytest.mark.parametrize(
    ("name", "text", "lines", "python"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["rich<20"]\n', "rich<20", ""),
        ("pylock.toml", f"{LOCK}{RICH}", "rich==15.0", ""),
        ("environment.yml", CONDA, FROM_CONDA, "3.11"),
    ],
)
def test_files_of_other_tools_name_packages(
    tmp_path: Path, name: str, text: str, lines: str, python: str
) -> None:
    additions = read(tmp_path, name, text)
    assert (additions.lines, additions.python) == (tuple(lines.split()), python)


def test_a_file_of_requirements_may_name_others_and_hold_hashes(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("timm >= 1.0  # models\n")
    text = f"# mine\n-r more.txt\neinops==0.8.0 \\\n  --hash=sha256:{ZEROS}\n\n"
    additions = read(tmp_path, "requirements.txt", text)
    assert additions.lines == ("timm>=1.0", "einops==0.8.0")
    assert additions.hashes == {"einops": {ZEROS}}


def test_a_hash_that_is_not_a_sha256_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the hash 'md5:00'"):
        read(tmp_path, "requirements.txt", "einops==0.8.0 --hash=md5:00\n")


def test_every_wrong_line_is_reported_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--pre\nrich\nnot a package\n")
    with pytest.raises(InputError) as refused:
        read_additions(["a.txt"], [file, tmp_path / "none.txt"], [])
    whats = [(each.what, each.where) for each in refused.value.problems]
    assert whats == [
        ("'a.txt' is a file", ""),
        ("the option --pre is not read here", f"{file}:1:1"),
        ("invalid requirement 'not a package'", f"{file}:3:1"),
        ("cannot read the file of requirements", str(tmp_path / "none.txt")),
    ]


def problems_of(folder: Path, name: str, text: str) -> list[tuple[str, str]]:
    """Return what is wrong with a file, and where in it."""
    with pytest.raises(InputError) as refused:
        read(folder, name, text)
    assert all(each.hint for each in refused.value.problems)
    problems = refused.value.problems
    return [(each.what, each.where.removeprefix(f"{folder}/")) for each in problems]


def test_a_lock_of_uv_is_exported_without_packages_for_development(tmp_path: Path) -> None:
    file = tmp_path / "uv.lock"
    file.write_text("version = 1\n")
    with pytest.raises(InputError) as refused:
        read_additions([], [file], [])
    assert "uv export --no-dev" in refused.value.problems[0].hint


def test_a_file_that_names_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("rich\n\n-r a.txt\n")
    problems = problems_of(tmp_path, "a.txt", "-r b.txt\n--requirement=a.txt\n")
    what = "the file of requirements names itself"
    assert problems == [(what, "b.txt:3:1"), (what, "a.txt:2:1")]


def test_a_file_is_read_once_however_often_others_name_it(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n" * 2)
    (tmp_path / "40.txt").write_text("rich\n")
    assert read_additions([], [tmp_path / "0.txt"], []).lines == ("rich",)


def test_files_that_name_each_other_in_a_long_row_are_refused(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n")
    ((what, where),) = problems_of(tmp_path, "first.txt", "-r 0.txt\n")
    assert what.startswith("more than")
    assert where.endswith(".txt:1:1")


@pytest.mark.parametrize(
    ("text", "whats"),
    [
        ("project = 3", ["expected a table 'project', got 3"]),
        (
            "project.dependencies = 'numpy'",
            ["expected a list 'project.dependencies', got 'numpy'"],
        ),
        (
            "project.dependencies = ['rich', 1, 'a b', {}]",
            [
                "expected text in 'project.dependencies', got 1",
                "expected text in 'project.dependencies', got {}",
                "invalid requirement 'a b'",
            ],
        ),
        (f"a = {'9' * 5000}", ["this is not TOML"]),
        ("packages = [1]", ["this is not a lock of PEP 751"]),
        (f"{LOCK}{RICH}marker = 3", ["this is not a lock of PEP 751"]),
        (
            f"{LOCK}{RICH}".replace('version = "15.0"\n', ""),
            ["cannot install 'rich' of the lock"],
        ),
        (
            f"{LOCK}packages = [{{name = 'mine', vcs = {{{HG}}}}}]",
            ["cannot install 'mine' of the lock"],
        ),
    ],
)
def test_what_is_wrong_in_toml_is_reported(tmp_path: Path, text: str, whats: list[str]) -> None:
    problems = problems_of(tmp_path, "file.toml", text)
    assert sorted(problems) == sorted((what, "file.toml") for what in whats)


def test_a_folder_of_own_code_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"folder not found\n  where: {tmp_path}/none\n"):
        read_additions([], [], [tmp_path / "none"])


def test_what_the_build_of_own_code_needs_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = 'hatchling'\n")
    with pytest.raises(InputError, match=r"expected a list 'build-system\.requires', got 'hatch"):
        read_additions([], [], [tmp_path])


LOCKED = {
    "pywin32": "sys_platform == 'win32'",
    "numpy": "python_version < '3.12'",
    "rich": "'main' in dependency_groups",
    "pytest": "'dev' in dependency_groups",
    "gui": "'gui' in extras or 'gui' not in extras",
}


def test_uv_judges_the_markers_of_a_lock_in_the_image(tmp_path: Path) -> None:
    rows = [f'{RICH}marker = "{each}"\n'.replace("rich", name) for name, each in LOCKED.items()]
    text = f'{LOCK}default-groups = ["main"]\n{"".join(rows)}'
    assert read(tmp_path, "pylock.toml", text).lines == (
        'pywin32==15.0; sys_platform == "win32"',
        'numpy==15.0; python_version < "3.12"',
        'rich==15.0; python_version >= "0"',
        'pytest==15.0; python_version < "0"',
        'gui==15.0; python_version < "0" or python_version >= "0"',
    )


SHIFTED = f"""\
dependencies:
  - numpy=1.2|1.3
  - pip:
      - --extra-index-url=https://x:y@evil.example/simple
      - -e . --hash=sha256:aa
      - "a @ https://x.example/a.whl\\n-e./x"
      - einops==0.8.0 --hash=sha256:{ZEROS}
      - -r none.txt
      - torch: ==2.9
"""


def test_each_line_of_an_environment_is_checked_as_one_of_requirements(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "environment.yml", SHIFTED) == [
        ("invalid requirement 'numpy=1.2|1.3'", "environment.yml:2:5"),
        ("an entry of 'pip' is not a requirement in one line", "environment.yml:9:9"),
        ("invalid URL 'https://evil.example/simple'", "environment.yml:4:9"),
        ("cannot read the hash 'sha256:aa'", "environment.yml:5:9"),
        (r"invalid requirement 'a @ https://x.example/a.whl\n-e./x'", "environment.yml:6:9"),
        ("cannot read the file of requirements", "none.txt"),
    ]


def test_an_environment_may_name_a_file_of_requirements_and_hold_hashes(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("rich\n")
    pip = f"einops==0.8.0 --hash=sha256:{ZEROS}"
    text = f"dependencies: [numpy==1.26.4=py311*, pip: [-r more.txt, '{pip}']]\n"
    additions = read(tmp_path, "environment.yml", text)
    assert additions.lines == ("numpy==1.26.4", "rich", "einops==0.8.0")
    assert additions.hashes == {"einops": {ZEROS}}


def test_environments_agree_on_one_python(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.yml" for name in "abc"]
    for file, version in zip(files, ("3.11", "3.11.4", "3.12"), strict=True):
        file.write_text(f"dependencies: [rich, python={version}]\n")
    assert read_additions([], files[:2], []) == Additions(("rich",), python="3.11")
    with pytest.raises(InputError, match=r"the files name Python 3\.11 and 3\.12") as refused:
        read_additions([], files, [])
    assert [each.where for each in refused.value.problems] == [f"{files[2]}:1:22"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_of_windows_are_read_as_pip_reads_them(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "requirements.txt"
    text = f"rich # \u00fc\r\neinops==0.8.0 \\\r\n    --hash=sha256:{ZEROS}\r\n"
    file.write_bytes(text.encode(encoding))
    assert read_additions([], [file], []) == Additions(
        ("rich", "einops==0.8.0"), {"einops": {ZEROS}}
    )


def test_a_file_that_is_too_large_is_not_read_in_part(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, "requirements.txt", "rich\n" + "#" * (1 << 20))
    assert problems == [("cannot read the file of requirements", "requirements.txt")]


def test_packages_of_conda_that_pypi_does_not_have_are_refused_with_the_reason() -> None:
    problems = Problems()
    text = "dependencies: [openmpi, cupy, graphviz, some-tool]\n"
    assert read_dependencies(text, "e.yml", problems).lines == []
    assert [each.why for each in problems.noted] == [
        "the image has its own MPI",
        "PyPI has one package for each GPU software, such as cupy-rocm-7-0",
        "it is the Debian package graphviz",
        "its name in PyPI is not known, where another package may have this name",
    ]


def test_own_code_may_name_its_extras(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n")
    additions = read_additions([], [], [Path(f"{tmp_path}[dev,docs]")])
    assert additions == Additions((f"-e {tmp_path}[dev,docs]",), code=(tmp_path,))
