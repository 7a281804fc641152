"""What is read before an image is extended, and how a conflict is explained."""

import json
from pathlib import Path

import pytest

from lumicontainer.commands.parser import make_parser
from lumicontainer.errors import InputError, Problems
from lumicontainer.extending import conda, conflicts, facts, hashes
from lumicontainer.extending.container import uv_cache, working_folder
from lumicontainer.extending.extension import Order, lock_path
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.install import parts, rows
from lumicontainer.extending.resolution import _NO_WHEEL
from lumicontainer.extending.wanted import Wanted, read_wanted

ZEROS, ONES, TWOS = ("0" * 64, "1" * 64, "2" * 64)


def wanted(folder: Path, name: str, text: str) -> Wanted:
    (folder / name).write_text(text)
    return read_wanted([], [folder / name], [])


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
FROM_CONDA = "pandas==2.1.* torch>=2.0,<3 tqdm scipy==1.11.4.* trl==1.0"


@pytest.mark.parametrize(
    ("name", "text", "lines", "python"),
    [
        ("pyproject.toml", '[project]\ndependencies = ["rich<20"]\n', "rich<20", ""),
        ("pylock.toml", '[[packages]]\nname = "rich"\nversion = "15.0"\n', "rich==15.0", ""),
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


@pytest.mark.parametrize("disk", ["/dev/shm", ""])
def test_packages_are_installed_beside_uvs_cache_if_files_can_be_linked(
    disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", disk or str(tmp_path))
    with working_folder() as folder:
        (uv_cache() / "wheel").touch()
        if disk:
            assert folder.is_relative_to(disk)
        else:
            (folder / "installed").hardlink_to(uv_cache() / "wheel")
    assert not folder.exists()


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


def test_the_key_covers_protected_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path))
    image = tmp_path / "mine.sif"
    image.write_text("an image")
    order = Order(image, read_wanted(["rich"], [], []), frozenset(), "")

    def key(files: str) -> str:
        row = {"version": "2.0", "requires": [], "modules": ["torch"], "protected": files}
        answer = {"python": "3.11", "libraries": [], "packages": {"torch": row}}
        facts._remember(facts._place(image), json.dumps(answer).encode())
        return order.key()

    assert key(ZEROS) == key(ZEROS) != key(ONES)


FILES = f"""\
lock-version = "1.0"

[[packages]]
name = "a-b"
version = "1"
sdist = {{ url = "s", hashes = {{ sha256 = "{ZEROS}" }} }}
wheels = [
    {{ url = "w", size = 1, hashes = {{ sha256 = "{ONES}" }} }},
    {{ url = "x", size = 1, hashes = {{ sha256 = "{TWOS}" }} }},
]
"""


@pytest.mark.parametrize(
    ("given", "urls"),
    [("0", {"s"}), ("1", {"w"}), ("12", {"w", "x"}), ("", {"s", "w", "x"})],
    ids=["source", "wheel", "wheels", "none"],
)
def test_only_files_with_a_given_hash_stay_in_the_lock(given: str, urls: set[str]) -> None:
    allowed = frozenset(digit * 64 for digit in given)
    (row,) = rows(hashes.require(FILES, {"a-b": allowed}))
    kept = [row.get("sdist"), *row.get("wheels", ())]
    assert {each["url"] for each in kept if each} == urls
    assert set(hashes.of_package(row)) >= allowed


def test_a_package_without_a_file_of_the_given_hash_is_refused() -> None:
    with pytest.raises(InputError) as refused:
        hashes.require(FILES, {"a-b": frozenset(["9" * 64])})
    assert "no file of a-b 1 has the given hash" in str(refused.value)
    assert f"sha256:{ZEROS}, " in str(refused.value)


def test_every_wrong_line_is_reported_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--index-url x\nrich\nnot a package\n")
    with pytest.raises(InputError) as refused:
        read_wanted(["a.txt"], [file, tmp_path / "none.txt"], [])
    whats = [(each.what, each.where) for each in refused.value.problems]
    assert whats == [
        ("'a.txt' is a file", ""),
        ("the option --index-url is not read here", f"{file}:1:1"),
        ("invalid requirement 'not a package'", f"{file}:3:1"),
        ("cannot read the file of requirements", str(tmp_path / "none.txt")),
    ]


def test_packages_of_conda_that_pypi_does_not_have_are_refused_with_the_reason() -> None:
    problems = Problems()
    text = "dependencies: [cudatoolkit=11, ffmpeg, some-tool]\n"
    assert conda.requirements(text, "e.yml", problems) == []
    assert [each.why for each in problems.found] == [
        "the image has its own GPU software",
        "it is a program; PyPI's ffmpeg is another package",
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
    found = [(each.asker, each.wanted) for each in conflicts._read(UV)]
    assert found == [("vllm 0.16.0", "torch ==2.9.1"), ("", "vllm ==0.16.0")]


@pytest.mark.parametrize(
    ("text", "builds"),
    [
        ("Because all versions of docopt have no usable wheels and you require docopt", True),
        ("Because antlr4==4.8 has no usable wheels", True),
        ("Because sentence-transformers<=2.2.2 has no usable wheels and only", False),
    ],
    ids=["no version", "this version", "old versions"],
)
def test_a_source_is_built_only_where_no_wheel_can_do(text: str, builds: bool) -> None:
    assert bool(_NO_WHEEL.search(text)) is builds


def test_wheels_are_installed_before_what_is_built_with_them() -> None:
    source, wheel = 'name = "a"\nsdist = {url = "x"}\n', 'name = "b"\nwheels = [{url = "y"}]\n'
    first, second = parts("\n[[packages]]\n".join(('lock-version = "1.0"\n', source, wheel)))
    assert 'name = "b"' in first and 'name = "a"' not in first
    assert 'name = "a"' in second and first.startswith("lock-version")


def test_the_lock_has_a_name_by_the_standard() -> None:
    assert lock_path(Path("/x/my.packages.sqsh")) == Path("/x/pylock.my-packages.toml")
