"""A build by a lock is refused before it begins where the lock does not pin all of the image."""

import json

from lumicontainer.errors import LOCK_STALE

from ..conftest import HELLO, Write
from .conftest import Run

NAME = "locks/hello.workstation.lock.yaml"
PINNED = {
    **HELLO,
    NAME: (
        "recipe: hello\nplatform: workstation\nlayers:\n  tiny:\n"
        f'    - debootstrap: bookworm\n      pin: "{"0" * 64}"\n'
    ),
}
STALE = {"layers/greet/layer.yaml": f"{HELLO['layers/greet/layer.yaml']}packages: {{apt: [sl]}}\n"}


def test_a_lock_that_is_missing_is_reported_with_how_to_make_it(
    lumicontainer: Run, write: Write
) -> None:
    folder = write(HELLO)
    done = lumicontainer("build", "hello", "--recipes", folder, "--locked", "--dry-run")
    assert done.returncode == LOCK_STALE
    assert "this image has no lock" in done.stderr
    assert f"lumicontainer lock {folder}/hello.yaml --platform workstation" in done.stderr
    assert done.stdout == ""


def test_a_whole_lock_is_built_by_and_has_keys_of_its_own(lumicontainer: Run, write: Write) -> None:
    words = ("build", "hello", "--recipes", write(PINNED), "--dry-run", "--json")
    free, fast = (json.loads(lumicontainer(*words, *o).stdout) for o in ((), ("--locked",)))
    assert free["base_key"] != fast["base_key"]
    printed = lumicontainer(*words[:-1], "--locked").stdout
    assert "not pinned" not in printed


def test_a_stale_lock_is_refused_with_the_list(lumicontainer: Run, write: Write) -> None:
    folder = write({**PINNED, **STALE})
    done = lumicontainer("build", "hello", "--recipes", folder, "--locked", "--dry-run")
    assert done.returncode == LOCK_STALE
    assert "greet: apt sl: it has no entry" in done.stderr
    assert NAME in done.stderr


def test_without_the_option_a_stale_lock_is_in_nobodys_way(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**PINNED, **STALE})
    assert lumicontainer("build", "hello", "--recipes", folder, "--dry-run").returncode == 0


def test_a_lock_that_is_no_lock_is_reported_with_its_place(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**PINNED, NAME: PINNED[NAME].replace("0" * 64, "12.11")})
    done = lumicontainer("build", "hello", "--recipes", folder, "--locked", "--dry-run")
    assert done.returncode == 2
    assert f"{NAME}:6:12" in done.stderr


def test_show_prints_what_the_lock_pins_and_what_is_missing(
    lumicontainer: Run, write: Write
) -> None:
    done = lumicontainer("show", "hello", "--recipes", write(PINNED))
    assert f"{NAME}: 1 pin; build --locked uses these only\n" in done.stdout
    assert "not pinned: debootstrap bookworm\n" in done.stdout
    assert f"with --locked: {'0' * 64}\n" in done.stdout
    folder = write({**PINNED, **STALE})
    done = lumicontainer("show", "hello", "--recipes", folder)
    assert "1 pin; it does not pin all of this image:\n  greet: apt sl: it has no" in done.stdout
    data = json.loads(lumicontainer("show", "hello", "--recipes", folder, "--json").stdout)
    assert data["lock"]["faults"] == ["greet: apt sl: it has no entry"]
    assert data["layers"]["tiny"]["locked"] == {"debootstrap bookworm": "0" * 64}


def test_a_lock_is_read_whatever_a_recipe_and_a_platform_may_be_called(
    lumicontainer: Run, write: Write
) -> None:
    text = PINNED[NAME].replace("hello", "Größe_2.x").replace("workstation", "My_PC")
    files = {
        "Größe_2.x.yaml": HELLO["hello.yaml"],
        "envs/My_PC.yaml": "summary: x\naccelerator: cpu\n",
        "locks/Größe_2.x.My_PC.lock.yaml": text,
    }
    words = ("show", "Größe_2.x", "--platform", "My_PC", "--recipes", write({**HELLO, **files}))
    assert ": 1 pin; build --locked uses these only" in lumicontainer(*words).stdout


def test_a_lock_is_not_written_where_there_is_no_folder(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    done = lumicontainer("lock", "hello", "--recipes", folder, "--output", folder / "no/x.yaml")
    assert done.returncode == 2
    assert "the lock's folder does not exist" in done.stderr


def test_a_lock_takes_the_place_of_no_folder(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    for output in (folder, "."):
        done = lumicontainer("lock", "hello", "--recipes", folder, "--output", output)
        assert done.returncode == 2
        assert "the lock is a folder" in done.stderr


def test_a_lock_that_is_no_text_is_reported(lumicontainer: Run, write: Write) -> None:
    folder = write(PINNED)
    (folder / NAME).write_bytes(b"\xff")
    done = lumicontainer("show", "hello", "--recipes", folder)
    assert done.returncode == 2
    assert "expected UTF-8 text" in done.stderr
