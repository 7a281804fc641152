"""A build by a lock is refused before it begins if the lock does not pin all of the image."""

import pytest

from ..conftest import HELLO
from .conftest import Ask, Hello, Run, refused

NAME = "locks/hello.workstation.lock.yaml"
PINNED = {
    NAME: (
        "recipe: hello\nplatform: workstation\nlayers:\n  tiny:\n"
        f'    - debootstrap: bookworm\n      pin: "{"0" * 64}"\n'
    )
}
LAYER = "layers/greet/layer.yaml"
STALE = {**PINNED, LAYER: f"{HELLO[LAYER]}packages: {{apt: [sl]}}\n"}
LOCKED = ("--locked", "--dry-run")


@pytest.mark.parametrize(
    ("files", "code", "says"),
    [
        ({}, 4, ("has no lock", "hint: lumicontainer lock /", "/own/hello.yaml --platform workst")),
        (STALE, 4, ("greet: apt sl: it has no entry", NAME)),
        ({NAME: PINNED[NAME].replace("0" * 64, "12.11")}, 2, (f"{NAME}:6:12",)),
    ],
    ids=["missing", "stale", "no lock"],
)
def test_a_lock_that_does_not_pin_the_image_is_refused(
    lumicontainer: Run, hello: Hello, files: dict[str, str], code: int, says: tuple[str, ...]
) -> None:
    refused(lumicontainer("build", *hello(files), *LOCKED), *says, code=code)


def test_a_build_by_a_lock_has_keys_of_its_own(lumicontainer: Run, ask: Ask, hello: Hello) -> None:
    words = ("build", *hello(PINNED), "--dry-run")
    assert ask(*words)["base_key"] != ask(*words, "--locked")["base_key"]
    assert "not pinned" not in lumicontainer(*words, "--locked").stdout


def test_without_the_option_a_stale_lock_does_not_count(lumicontainer: Run, hello: Hello) -> None:
    done = lumicontainer("build", *hello(STALE), "--dry-run")
    assert done.returncode == 0
    assert "  1 input not pinned\n" in done.stdout


def test_show_prints_what_a_lock_pins_or_lacks(lumicontainer: Run, ask: Ask, hello: Hello) -> None:
    shown = lumicontainer("show", *hello(PINNED)).stdout
    assert f"{NAME}: 1 pin; build --locked uses these only\n" in shown
    assert "not pinned: debootstrap bookworm\n" in shown
    assert f"with --locked: {'0' * 64}\n" in shown
    words = ("show", *hello(STALE))
    assert "it does not pin all of this image:\n  greet: apt sl: it" in lumicontainer(*words).stdout
    assert ask(*words)["lock"]["faults"] == ["greet: apt sl: it has no entry"]


def test_a_lock_is_not_written_where_no_file_can_be(lumicontainer: Run, hello: Hello) -> None:
    *_, folder = words = ("lock", *hello())
    done = lumicontainer(*words, "--output", folder / "no/x.yaml")
    refused(done, "the lock's folder does not exist")
    for output in (folder, "."):
        refused(lumicontainer(*words, "--output", output), "the lock is a folder")


def test_a_lock_that_is_no_text_is_reported(lumicontainer: Run, hello: Hello) -> None:
    *_, folder = words = hello(PINNED)
    (folder / NAME).write_bytes("recipe: hello\né: ".encode() + b"\xff")
    refused(lumicontainer("show", *words), "expected UTF-8 text", f"{NAME}:2:4\n")
