"""Packages that users name by their place: of git, and wheels and folders of this host."""

from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending.reading.additions import Additions, read_additions
from lumicontainer.extending.reading.indexes import IndexOption, with_indexes
from lumicontainer.extending.reading.references import Reference

from ....packages import LOCK
from ..places import HASH, folder, reference

__all__ = ["folder"]

COMMIT = "0123456789" * 4
GIT = "https://a.example/b"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (f"mine @ git+{GIT}.git@{COMMIT}", Reference(f"{GIT}.git", name="mine", revision=COMMIT)),
        (f"git+{GIT}@v1.0#egg=mine", Reference(GIT, name="mine", revision="v1.0")),
        (f"git+{GIT}", Reference(GIT)),
        (f"git+{GIT}@feature/x", Reference(GIT, revision="feature/x")),
        (f"git+{GIT}#egg=mine[a,b]", Reference(GIT, name="mine", extras="[a,b]")),
        (
            f"mine[a] @ git+{GIT}#subdirectory=python ; python_version>='3.9'",
            Reference(
                GIT,
                name="mine",
                extras="[a]",
                subdirectory="python",
                marker="python_version>='3.9'",
            ),
        ),
    ],
)
def test_a_repository_is_named_as_for_pip(word: str, expected: Reference) -> None:
    assert reference(word) == expected


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("mine @ git+ssh://git@a.example/b", "name its folder: ./FOLDER"),
        ("git+git@a.example:b", "git repositories are fetched by https only"),
        ("git+ext::sh -c touch% x", "git repositories are fetched by https only"),
        ("git+file:///srv/b", "name its folder: ./FOLDER"),
        (f"mine @ git+https://me:secret@a.example/b@{COMMIT}", "would be kept"),
        (f"git+{GIT}@--upload-pack=x", "invalid revision"),
        (f"git+{GIT}@a..b", "invalid revision"),
        (f"git+{GIT}#subdirectory=../x", "leads out of it"),
        (f"mine @ git+{GIT} ; x", "invalid requirement"),
        ("./nothing.whl", "it counts from the current folder"),
        ("./nothing", "'./nothing' not found"),
        ("https://a.example/mine-1.0.tar.gz", "NAME @ URL"),
        ("uv.lock", "write -r uv.lock"),
        ("mine @ file:///a/my code", "write 'mine @ file:///a/my%20code'"),
        ("file:/a/my code.whl", "write file:///a/my%20code.whl"),
    ],
)
def test_a_place_that_is_not_read_is_refused_with_a_way_that_works(word: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_additions([word], [], [])
    (problem,) = refused.value.problems
    assert says in f"{problem.what} {problem.why} {problem.hint}"


@pytest.mark.parametrize(
    ("word", "path", "name", "extras"),
    [
        ("./wheel-1.0-py3-none-any.whl", "wheel-1.0-py3-none-any.whl", "wheel", ""),
        ("wheel-1.0-py3-none-any.whl", "wheel-1.0-py3-none-any.whl", "wheel", ""),
        ("./mine-1.0.tar.gz", "mine-1.0.tar.gz", "mine", ""),
        ("./code", "code", "", ""),
        ("code/[a, b]", "code", "", "[a,b]"),
        ("my @ file://{folder}/code", "code", "my", ""),
        ("file:{folder}/code", "code", "", ""),
    ],
)
def test_a_path_is_named_as_for_pip(
    folder: Path, word: str, path: str, name: str, extras: str
) -> None:
    parsed = reference(word.format(folder=folder))
    assert parsed == Reference(path=str(folder / path), name=name, extras=extras)


ONE = "1" * 64


@pytest.mark.parametrize(
    ("word", "hashes"),
    [
        (f"mine @ file://{{folder}}/mine-1.0.tar.gz#sha256={ONE}", (ONE,)),
        (f"file:{{folder}}/wheel-1.0-py3-none-any.whl#egg=wheel&sha256={ONE}", (ONE,)),
        (f"file:{{folder}}/mine-1.0.tar.gz#sha256={'A' * 64}", ("a" * 64,)),
        ("file:{folder}/mine-1.0.tar.gz", ()),
    ],
)
def test_the_hash_behind_a_file_is_the_users(
    folder: Path, word: str, hashes: tuple[str, ...]
) -> None:
    assert reference(word.format(folder=folder)).hashes == hashes


@pytest.mark.parametrize(
    "fragment", ["sha256=1", f"md5={'1' * 32}", f"sha256={ONE}&sha256={'2' * 64}"]
)
def test_a_hash_behind_a_file_that_cannot_be_read_is_refused(folder: Path, fragment: str) -> None:
    with pytest.raises(InputError, match=r"cannot read '#|a file has two hashes"):
        read_additions([f"file:{folder}/mine-1.0.tar.gz#{fragment}"], [], [])


def test_what_is_no_package_is_no_reference(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "odd-name.whl").touch()
    for word, says in (("./empty", "has no pyproject.toml"), ("odd-name.whl", "does not say")):
        with pytest.raises(InputError, match=says):
            read_additions([word], [], [])
    with pytest.raises(InputError, match="is a wheel of wheel, not of other"):
        read_additions([f"other @ file://{folder}/wheel-1.0-py3-none-any.whl"], [], [])


REQUIREMENTS = f"""\
-i https://a.example/simple
--extra-index-url=https://b.example/cpu
-f wheels
-e ./code[more]
-e git+{GIT}@main#egg=mine
./wheel-1.0-py3-none-any.whl --hash=sha256:{HASH}
rich
"""


def test_a_file_of_requirements_names_indexes_places_and_code(folder: Path) -> None:
    (folder / "wheels").mkdir()
    (folder / "r.txt").write_text(REQUIREMENTS)
    assert read_additions([], [Path("r.txt")], []) == Additions(
        (f"-e {folder}/code[more]", "rich"),
        code=(folder / "code",),
        references=(
            Reference(GIT, name="mine", revision="main"),
            Reference(path=f"{folder}/wheel-1.0-py3-none-any.whl", name="wheel", hashes=(HASH,)),
        ),
        indexes=(
            IndexOption("index-url", "https://a.example/simple"),
            IndexOption("extra-index-url", "https://b.example/cpu"),
            IndexOption("find-links", f"{folder}/wheels"),
        ),
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--extra-index-url https://me:hunter2@a.example/x", "would be kept"),
        ("--index-url http://a.example/x", "expected https"),
        ("-f nothing", "the folder of -f is not found"),
        ("--pre", "the option --pre is not read here"),
        ("-c limits.txt", "write its versions behind the packages"),
    ],
)
def test_an_index_that_the_record_must_not_keep_is_refused(
    folder: Path, line: str, says: str
) -> None:
    (folder / "r.txt").write_text(f"{line}\n")
    with pytest.raises(InputError, match=says) as refused:
        read_additions([], [folder / "r.txt"], [])
    assert "hunter2" not in str(refused.value)


def test_indexes_of_a_file_are_added_to_pips() -> None:
    pip = {"extra-index-url": "https://a.example", "index-url": "https://b.example"}
    options = [IndexOption("extra-index-url", "https://c.example"), IndexOption("index-url", "d")]
    assert with_indexes(pip, options) == {
        "extra-index-url": "https://a.example https://c.example",
        "index-url": "d",
    }
    with pytest.raises(InputError, match="pip's configuration has no-index"):
        with_indexes({"no-index": "1"}, options)


PYLOCK = f"""\
{LOCK}
[[packages]]
name = "mine"
version = "1.0"
vcs = {{ type = "git", url = "{GIT}", commit-id = "{COMMIT}", subdirectory = "a b" }}
[[packages]]
name = "wheel"
version = "1.0"
archive = {{ path = "wheel-1.0-py3-none-any.whl", hashes = {{ sha256 = "{HASH}" }} }}
[[packages]]
name = "far"
version = "1.0"
archive = {{ url = "https://a.example/far.tar.gz", hashes = {{ sha256 = "{HASH}" }} }}
"""


def test_a_lock_with_places_is_read_as_they_are(folder: Path) -> None:
    (folder / "pylock.toml").write_text(PYLOCK)
    additions = read_additions([], [folder / "pylock.toml"], [])
    assert [each.replace(" @ ", "@ ") for each in additions.lines] == [
        "far@ https://a.example/far.tar.gz"
    ]
    assert [(each.name, each.revision, each.subdirectory) for each in additions.references] == [
        ("mine", COMMIT, "a b"),
        ("wheel", "", ""),
    ]
    assert additions.references[1].hashes == (HASH,)


@pytest.mark.parametrize("kind", ["archive", "directory"])
def test_a_part_of_an_archive_in_a_lock_is_refused(folder: Path, kind: str) -> None:
    hashes = f', hashes = {{ sha256 = "{HASH}" }}' if kind == "archive" else ""
    row = f'name = "mine"\n{kind} = {{ path = "wheel", subdirectory = "python"{hashes} }}\n'
    (folder / "pylock.toml").write_text(f"{LOCK}[[packages]]\n{row}")
    with pytest.raises(InputError, match="its source is a subdirectory"):
        read_additions([], [folder / "pylock.toml"], [])


def test_a_package_may_have_more_extras_than_a_name_of_a_file_has_characters() -> None:
    word = f"mine[{','.join(f'extra{number}' for number in range(60))}]"
    assert len(read_additions([word], [], []).lines) == 1


@pytest.mark.parametrize("name", ["a" * 300, f"{'a' * 300}[x]", f"b/{'a' * 300}"])
def test_a_path_may_be_too_long_for_a_file(name: str) -> None:
    with pytest.raises(InputError, match="not found"):
        read_additions([f"./{name}"], [], [])
