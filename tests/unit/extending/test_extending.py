"""An extension has its own key and lock, and the commands in its messages can be pasted."""

import json
from pathlib import Path

import pytest

from lumicontainer.api import extending
from lumicontainer.api.extending import Extended, ExtendRequest
from lumicontainer.commands import extend
from lumicontainer.commands.parser import make_parser
from lumicontainer.errors import InputError
from lumicontainer.extending import facts
from lumicontainer.extending.extension import Order, hint_of_index
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.lock.hashes import require_hashes
from lumicontainer.extending.reading.additions import Additions, read_additions
from lumicontainer.extending.resolving import conflicts
from lumicontainer.packages.pylock import hashes_of, pylock_text, read_pylock

from ...packages import LOCK
from .places import ONES, RICH, TWOS, ZEROS


@pytest.mark.parametrize(
    "words",
    ["x.sif a -r r.txt b", "x.sif -r r.txt a b", "-r r.txt x.sif a b", "x.sif a b -r r.txt"],
)
def test_packages_and_options_stand_in_any_order(words: str) -> None:
    line = ["extend", *words.split(), "-o", "mine.sqsh"]
    arguments, rest = make_parser(["extend"]).parse_known_args(line)
    assert (arguments.image, arguments.packages, rest) == (Path("x.sif"), ["a", "b"], [])


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
    ("digits", "kept"),
    [("0", "s"), ("1", "w"), ("12", "wx"), ("", "swx")],
    ids=["source", "wheel", "wheels", "none"],
)
def test_only_files_with_a_given_hash_stay_in_the_lock(digits: str, kept: str) -> None:
    allowed = frozenset(digit * 64 for digit in digits)
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


def test_each_package_needs_a_hash_if_a_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--require-hashes\na-b==1.0\n")
    assert read_additions([], [file], []).requires_hashes
    with pytest.raises(InputError, match="no hash is given for a-b=="):
        require_hashes(read_pylock(FILES), {}, strict=True)
    require_hashes(read_pylock(FILES), {"a-b": frozenset([ONES])}, strict=True)


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
    needs = [(each.asker, each.requirement) for each in conflicts._read(UV)]
    assert needs == [("vllm 0.16.0", "torch ==2.9.1"), ("", "vllm ==0.16.0")]


def test_the_command_with_the_index_of_the_image_can_be_pasted() -> None:
    index, command = "https://wheels.example/cpu", "lumicontainer extend x.sif torchvision -o y"
    hint = hint_of_index(index, command, indexed=False)
    assert hint.endswith(f": PIP_EXTRA_INDEX_URL={index} {command}")


@pytest.mark.parametrize("index", ["https://wheels.example/cpu", ""])
def test_no_command_replaces_the_indexes_of_pip_s_configuration(index: str) -> None:
    hint = hint_of_index(index, "lumicontainer extend", indexed=True)
    assert f"add {index or 'an index'}" in hint
    assert "to extra-index-url of pip's configuration" in hint
    assert "PIP_EXTRA_INDEX_URL" not in hint


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
    extend.run(make_parser(["extend"]).parse_args(line))
    assert f"use it: lumicontainer run {words} -- COMMAND\n" in capsys.readouterr().err


def test_an_invalid_size_of_the_cache_ends_the_command_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE_SIZE", "much")
    request = ExtendRequest(tmp_path / "absent.sif", tmp_path / "mine.sqsh", ["tiny"])
    with pytest.raises(InputError, match="LUMICONTAINER_CACHE_SIZE"):
        extending.extend(request)
