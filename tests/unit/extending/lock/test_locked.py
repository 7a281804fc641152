"""A lock names files of packages; an index, a source or an image may change it."""

from pathlib import Path

import pytest
from packaging.pylock import Pylock

from lumicontainer.errors import (
    InputError,
    StepError,
)
from lumicontainer.extending.lock.locked import RemoteFile, read_locked
from lumicontainer.extending.lock.relock import read_answer, read_pins, require_pinned_files
from lumicontainer.packages.pylock import read_pylock

from ....packages import LOCK

ZEROS = "0" * 64
HASHES = f'hashes = {{ sha256 = "{ZEROS}" }}'


def lock_of(*blocks: str) -> Pylock:
    return read_pylock("".join([LOCK, *blocks]))


def block(name: str, rest: str) -> str:
    return f'[[packages]]\nname = "{name}"\nversion = "1.0"\n{rest}\n'


def wheels(*names: str) -> str:
    urls = ", ".join(f'{{ url = "https://x.example/{name}.whl", {HASHES} }}' for name in names)
    return f"wheels = [{urls}]"


def test_the_best_wheel_of_a_lock_is_chosen() -> None:
    better = "a-1.0-cp311-cp311-manylinux_2_28_x86_64"
    others = ("a-1.0-py3-none-any", "a-1.0-cp311-cp311-manylinux2014_x86_64")
    (package,) = read_locked(lock_of(block("a", wheels(*others, better))), "3.11")
    assert package.is_wheel
    name = f"{better}.whl"
    assert package.file == RemoteFile(f"https://x.example/{name}", ZEROS, name)


def test_of_equal_wheels_the_highest_build_is_chosen() -> None:
    names = [f"a-1.0-{build}-py3-none-any" for build in ("1", "10", "2")]
    (package,) = read_locked(lock_of(block("a", wheels("a-1.0-py3-none-any", *names))), "3.11")
    assert package.file
    assert package.file.name == "a-1.0-10-py3-none-any.whl"


def test_an_index_names_a_wheel_whatever_its_address_is() -> None:
    file = f'name = "a-1.0-py3-none-any.whl", url = "https://x.example/download?file=a", {HASHES}'
    (package,) = read_locked(lock_of(block("a", f"wheels = [{{ {file} }}]")), "3.11")
    assert package.is_wheel


@pytest.mark.parametrize("name", ["b-1.0-py3-none-any", "a-2.0-py3-none-any", "odd"])
def test_a_wheel_of_another_package_or_version_is_no_file_of_a_package(name: str) -> None:
    archive = f'archive = {{ url = "https://x.example/{name}.whl", {HASHES} }}'
    with pytest.raises(InputError, match="a has no file"):
        read_locked(lock_of(block("a", archive)), "3.11")


def test_a_package_of_a_lock_has_a_file_with_a_hash() -> None:
    url = "url = 'https://x.example/a-1.0.tar.gz'"
    with pytest.raises(InputError, match="a has no file with a sha256"):
        read_locked(lock_of(block("a", f"sdist = {{ {url}, hashes = {{ md5 = '0' }} }}")), "3.11")
    with pytest.raises(InputError, match="a has no file with a sha256"):
        read_locked(
            lock_of(block("a", f"vcs = {{ type = 'git', {url}, commit-id = '0' }}")), "3.11"
        )


@pytest.mark.parametrize("address", ["me:S3cr3t@x.example/a", "x.example/a.whl?token=S3cr3t&b="])
def test_an_address_of_an_index_that_holds_a_secret_is_refused(address: str) -> None:
    """The lock would keep it."""
    file = f'name = "a-1.0-py3-none-any.whl", url = "https://{address}-1.0-py3-none-any.whl"'
    lock = lock_of(block("a", f"wheels = [{{ {file}, {HASHES} }}]"))
    with pytest.raises(InputError, match=r"invalid URL .* of a") as refused:
        read_locked(lock, "3.11")
    assert "S3cr3t" not in str(refused.value)


SECRET = "https://me:S3cr3t@x.example/a-1.0"
SDIST = f'sdist = {{ url = "{SECRET}.tar.gz", hashes = {{ md5 = "0" }} }}'
UNUSED = (
    f"""wheels = [
    {{ url = "https://x.example/a-1.0-py3-none-any.whl", {HASHES} }},
    {{ url = "{SECRET}-py2-none-any.whl", hashes = {{ md5 = "0" }} }},
]""",
    f"{wheels('a-1.0-py3-none-any')}\n{SDIST}",
    SDIST.replace("sdist", "archive"),
    f'index = "{SECRET}"\n{wheels("a-1.0-py3-none-any")}',
    f'vcs = {{ type = "git", url = "{SECRET}", commit-id = "0" }}',
)


@pytest.mark.parametrize("files", UNUSED, ids=["wheel", "source", "archive", "index", "git"])
def test_an_address_with_a_secret_is_refused_even_if_its_file_is_not_used(files: str) -> None:
    with pytest.raises(InputError, match="holds a user name or a password") as refused:
        read_locked(lock_of(block("a", files)), "3.11")
    assert "S3cr3t" not in str(refused.value)


def test_names_and_versions_alone_count_in_a_lock_that_code_could_change(tmp_path: Path) -> None:
    own = f'[[packages]]\nname = "mine"\ndirectory = {{ path = "{tmp_path}", editable = true }}\n'
    archive = f'archive = {{ url = "https://x.example/b.tar.gz", {HASHES} }}'
    lock = lock_of(block("a", wheels("a-1.0-py3-none-any")), block("b", archive), own)
    pins = read_pins(lock, ["a", "b @ https://y.example/b.tar.gz", f"-e {tmp_path}"], [tmp_path])
    assert pins.lines == ("a==1.0", "b @ https://y.example/b.tar.gz")
    assert pins.settings.count("[[dependency-metadata]]") == 2
    assert [(each.name, each.directory.path) for each in pins.own if each.directory] == [
        ("mine", str(tmp_path))
    ]
    assert "x.example" not in "".join(map(str, pins))


STRANGE = (
    '[[packages]]\nname = "a"\nversion = "1.0\\n-e /etc"\n',
    '[[packages]]\nname = "a\\nb"\nversion = "1.0"\n',
    '[[packages]]\nname = "mine"\ndirectory = { path = "/etc", editable = true }\n',
    '[[packages]]\nname = "a"\n',
    'packages = "a"\n',
    "packages = [1]\n",
    f"a = {'[' * 5000}",
    f"a = {'9' * 5000}",
    "not TOML",
)


@pytest.mark.parametrize("lock", STRANGE, ids=range(len(STRANGE)))
def test_a_lock_that_uv_would_not_print_is_refused(lock: str) -> None:
    with pytest.raises(StepError, match="a source changed the answer of uv"):
        read_pins(read_answer(f"{LOCK}{lock}"), ["a"], [])


GIVEN = (wheels("a-1.0-py3-none-any"), f'archive = {{ url = "file:///given/a.tar.gz", {HASHES} }}')
FOREIGN = (
    block("b", wheels("b-1.0-py3-none-any")),
    block("a", wheels("a-1.0-py3-none-any")).replace("1.0", "2.0"),
    block("a", 'directory = { path = "/home/you" }'),
    block("a", 'directory = { path = "/home/you", editable = true }'),
    block("a", "vcs = { type = 'git', url = 'https://x.example/a', commit-id = '0' }"),
    block("a", f'archive = {{ url = "file:///home/you/a.tar.gz", {HASHES} }}'),
    block("a", f'archive = {{ url = "file:///given/../home/you/a.tar.gz", {HASHES} }}'),
    block("a", f'archive = {{ path = "/home/you/a.tar.gz", {HASHES} }}'),
)


@pytest.mark.parametrize("answer", FOREIGN, ids=range(len(FOREIGN)))
def test_files_of_pinned_packages_alone_are_taken_from_the_answer_of_an_image(answer: str) -> None:
    """A hostile image prints the answer of uv: no folder of the user may be mounted for it."""
    pins = read_pins(lock_of(block("a", wheels("a-1.0-py3-none-any"))), ["a"], [])
    for files in GIVEN:
        require_pinned_files(lock_of(block("a", files)), pins, [Path("/given")])
    with pytest.raises(StepError, match="a source changed the answer of uv"):
        require_pinned_files(lock_of(answer), pins, [Path("/given")])
