"""Requests and images are read before an image is extended, and conflicts are explained."""

import json
from pathlib import Path

import pytest

from lumicontainer.api import extending
from lumicontainer.api.extending import Extended, ExtendRequest
from lumicontainer.commands import extend
from lumicontainer.commands.parser import make_parser
from lumicontainer.errors import InputError, Problems
from lumicontainer.extending import facts
from lumicontainer.extending.extension import Order, hint_of_index
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.lock.hashes import require_hashes
from lumicontainer.extending.reading.additions import Additions, read_additions
from lumicontainer.extending.reading.conda import read_dependencies
from lumicontainer.extending.resolving import conflicts
from lumicontainer.packages.pylock import hashes_of, pylock_text, read_pylock

from ...packages import LOCK

ZEROS, ONES, TWOS = ("0" * 64, "1" * 64, "2" * 64)


def wanted(folder: Path, name: str, text: str) -> Additions:
    (folder / name).write_text(text)
    return read_additions([], [folder / name], [])


RICH = """\
[[packages]]
name = "rich"
version = "15.0"
wheels = [{ url = "https://x.example/rich-15.0-py3-none-any.whl", hashes = { md5 = "0" } }]
"""
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
    found = wanted(tmp_path, name, text)
    assert (found.lines, found.python) == (tuple(lines.split()), python)


def test_a_file_of_requirements_may_name_others_and_hold_hashes(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("timm >= 1.0  # models\n")
    text = f"# mine\n-r more.txt\neinops==0.8.0 \\\n  --hash=sha256:{ZEROS}\n\n"
    found = wanted(tmp_path, "requirements.txt", text)
    assert found.lines == ("timm>=1.0", "einops==0.8.0")
    assert found.hashes == {"einops": {ZEROS}}


def test_a_hash_that_is_not_a_sha256_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the hash 'md5:00'"):
        wanted(tmp_path, "requirements.txt", "einops==0.8.0 --hash=md5:00\n")


@pytest.mark.parametrize(
    "words",
    ["x.sif a -r r.txt b", "x.sif -r r.txt a b", "-r r.txt x.sif a b", "x.sif a b -r r.txt"],
)
def test_packages_and_options_stand_in_any_order(words: str) -> None:
    line = ["extend", *words.split(), "-o", "mine.sqsh"]
    found, rest = make_parser(["extend"]).parse_known_args(line)
    assert (found.image, found.packages, rest) == (Path("x.sif"), ["a", "b"], [])


def test_images_of_a_module_stand_before_and_behind_its_options() -> None:
    words = ["module", "a.sif", "--prefix", "modules", "b.sif"]
    assert make_parser(["module"]).parse_args(words).image == [Path("a.sif"), Path("b.sif")]


ANSWER = {
    "python": "3.11",
    "libraries": [],
    "packages": {},
    "site": {"folder": "/site", "place": "/site"},
    "extensible": True,
}
"""The report of an image's Python about itself."""


def test_the_key_covers_protected_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path))
    image = tmp_path / "mine.sif"
    image.write_text("an image")
    order = Order(image, read_additions(["rich"], [], []), frozenset(), "")

    def key(files: str) -> str:
        row = {"version": "2.0", "requires": [], "modules": ["torch"], "protected": files}
        answer = {**ANSWER, "packages": {"torch": row}}
        facts._remember(facts._place(image), json.dumps(answer).encode())
        return order.key()

    assert key(ZEROS) == key(ZEROS) != key(ONES)


def test_code_in_an_old_encoding_has_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path))
    image, code = tmp_path / "mine.sif", tmp_path / "setup.py"
    image.write_text("an image")
    facts._remember(facts._place(image), json.dumps(ANSWER).encode())

    def key(text: bytes) -> str:
        code.write_bytes(text)
        return Order(image, Additions((), code=(tmp_path,)), frozenset(), "").key()

    assert key(b"# caf\xe9") != key(b"# caf\xe8")
    with pytest.raises(InputError, match=r"more than 16\.0 MiB"):
        key(bytes(17 << 20))


FILES = f"""\
{LOCK}
[[packages]]
name = "a-b"
version = "1"
sdist = {{ url = "https://x.example/a-b-1.tar.gz", hashes = {{ sha256 = "{ZEROS}" }} }}
wheels = [
    {{ url = "https://x.example/a_b-1-py2-none-any.whl", hashes = {{ sha256 = "{ONES}" }} }},
    {{ url = "https://x.example/a_b-1-py3-none-any.whl", hashes = {{ sha256 = "{TWOS}" }} }},
]
"""


@pytest.mark.parametrize(
    ("given", "kept"),
    [("0", "s"), ("1", "w"), ("12", "wx"), ("", "swx")],
    ids=["source", "wheel", "wheels", "none"],
)
def test_only_files_with_a_given_hash_stay_in_the_lock(given: str, kept: str) -> None:
    allowed = frozenset(digit * 64 for digit in given)
    lock = require_hashes(read_pylock(FILES), {"a-b": allowed})
    assert read_pylock(pylock_text(lock)) == lock
    (package,) = lock.packages
    expected = {"s": ZEROS, "w": ONES, "x": TWOS}
    assert hashes_of(package) == [expected[each] for each in kept]


def test_a_file_without_a_sha256_does_not_stay_in_the_lock() -> None:
    """Its address may hold a secret, and nothing is installed from it."""
    unhashed = '{ url = "https://x.example/a_b-1-py38-none-any.whl", hashes = { md5 = "0" } }'
    lock = require_hashes(read_pylock(FILES.replace("wheels = [", f"wheels = [{unhashed},")), {})
    assert lock == read_pylock(FILES)
    (alone,) = require_hashes(read_pylock(f"{LOCK}{RICH}"), {}).packages
    assert not alone.wheels


def test_the_form_of_a_lock_does_not_decide_which_files_stay() -> None:
    compact = FILES.replace(" = ", "=").replace("{ ", "{").replace(" }", "}")
    lock = require_hashes(read_pylock(compact), {"a-b": frozenset([ONES])})
    assert [hashes_of(each) for each in lock.packages] == [[ONES]]


def test_a_package_without_a_file_of_the_given_hash_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        require_hashes(read_pylock(FILES), {"a-b": frozenset(["9" * 64])})
    assert "no file of a-b 1 has the given hash" in str(refused.value)
    assert f"sha256:{ZEROS}, " in str(refused.value)


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
        wanted(folder, name, text)
    assert all(each.hint for each in refused.value.problems)
    found = refused.value.problems
    return [(each.what, each.where.removeprefix(f"{folder}/")) for each in found]


def test_a_lock_of_uv_is_exported_without_packages_for_development(tmp_path: Path) -> None:
    file = tmp_path / "uv.lock"
    file.write_text("version = 1\n")
    with pytest.raises(InputError) as refused:
        read_additions([], [file], [])
    assert "uv export --no-dev" in refused.value.problems[0].hint


def test_a_file_that_names_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("rich\n\n-r a.txt\n")
    found = problems_of(tmp_path, "a.txt", "-r b.txt\n--requirement=a.txt\n")
    what = "the file of requirements names itself"
    assert found == [(what, "b.txt:3:1"), (what, "a.txt:2:1")]


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
    found = problems_of(tmp_path, "file.toml", text)
    assert sorted(found) == sorted((what, "file.toml") for what in whats)


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
    assert wanted(tmp_path, "pylock.toml", text).lines == (
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
    found = wanted(tmp_path, "environment.yml", text)
    assert found.lines == ("numpy==1.26.4", "rich", "einops==0.8.0")
    assert found.hashes == {"einops": {ZEROS}}


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
    found = problems_of(tmp_path, "requirements.txt", "rich\n" + "#" * (1 << 20))
    assert found == [("cannot read the file of requirements", "requirements.txt")]


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


FACTS = Facts(
    "3.11",
    {
        "torch": Installed("2.13.0+cpu", (), ("torch",), "0" * 64),
        "deepspeed": Installed("0.18.2", ("torch>=2", "triton; extra == 'x'"), (), "1" * 64),
        "accelerate": Installed("1.15.0", ("torch<1", "rich", "torch; python_version<'3'"), (), ""),
    },
)


def test_a_package_needs_what_the_image_meets() -> None:
    assert FACTS.needs("deepspeed") == {"torch": "torch>=2"}
    assert FACTS.needs("accelerate") == {}
    assert FACTS.users("torch") == ["deepspeed"]


UV = """\
error: No solution found when resolving dependencies
  cause: Because vllm==0.16.0 depends on torch==2.9.1 and torch==2.13.0+cpu.in.the.image, we can
         conclude that vllm==0.16.0 cannot be used. And because you require vllm==0.16.0, we can
         conclude that your requirements are unsatisfiable.
"""


def test_what_a_package_needs_is_read_from_the_message_of_uv() -> None:
    found = [(each.asker, each.requirement) for each in conflicts._read(UV)]
    assert found == [("vllm 0.16.0", "torch ==2.9.1"), ("", "vllm ==0.16.0")]


def test_the_command_with_the_index_of_the_image_can_be_pasted() -> None:
    index, command = "https://wheels.example/cpu", "lumicontainer extend x.sif torchvision -o y"
    found = hint_of_index(index, command, indexed=False)
    assert found.endswith(f": PIP_EXTRA_INDEX_URL={index} {command}")


@pytest.mark.parametrize("index", ["https://wheels.example/cpu", ""])
def test_no_command_replaces_the_indexes_of_pip_s_configuration(index: str) -> None:
    found = hint_of_index(index, "lumicontainer extend", indexed=True)
    assert f"add {index or 'an index'}" in found
    assert "to extra-index-url of pip's configuration" in found
    assert "PIP_EXTRA_INDEX_URL" not in found


def test_own_code_may_name_its_extras(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\nversion = '1'\n")
    found = read_additions([], [], [Path(f"{tmp_path}[dev,docs]")])
    assert found == Additions((f"-e {tmp_path}[dev,docs]",), code=(tmp_path,))


def test_the_command_in_place_of_one_of_pip_can_be_pasted() -> None:
    request = ExtendRequest(Path("my x.sif"), Path("my files/y.sqsh"), ["pip", "install", "rich"])
    with pytest.raises(InputError, match=r"extend 'my x\.sif' PACKAGE -o 'my files/y\.sqsh'"):
        extending._read_order(request)


@pytest.mark.parametrize(
    ("option", "words"), [("-o", "--with 'my y.sqsh' 'my x.sif'"), ("--into", "'my y.sqsh'")]
)
def test_the_command_that_uses_an_extension_can_be_pasted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    words: str,
) -> None:
    output = tmp_path / "my y.sqsh"
    output.touch()
    monkeypatch.setattr(extending, "extend", lambda *_: Extended(output, {"rich": "1.0"}))
    line = ["extend", "my x.sif", "rich", option, "my y.sqsh"]
    assert extend.run(make_parser(["extend"]).parse_args(line)) == 0
    assert f"use it: lumicontainer run {words} -- COMMAND\n" in capsys.readouterr().err
