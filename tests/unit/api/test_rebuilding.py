"""An image is made again from the values and the pins of its provenance."""

from pathlib import Path

import pytest

from lumicontainer.api.rebuilding import RebuildRequest, resolve_again
from lumicontainer.core.lock import LockEntry, apply_lock, lock_with, text_of
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError, LockError
from lumicontainer.host.recipes import resolve_recipe
from lumicontainer.trust.statement import EXTEND, Provenance, build_provenance, statement

from ...conftest import HELLO, Write

IMAGE = Path("hello.sif")
LAYER = HELLO["layers/greet/layer.yaml"] + "packages: {apt: [curl]}\n"
VALUES = ["greet.greeting=good day"]


def provenance_of(resolved: Resolved) -> Provenance:
    return build_provenance(planned(resolved), (), ())


def locked(folder: Path) -> Resolved:
    resolved = resolve_recipe("hello", platform="workstation", values=VALUES, recipes=folder)
    entries = {
        "tiny": [LockEntry("debootstrap", "bookworm", pin="ab" * 32)],
        "greet": [LockEntry("apt", "curl", pin="curl=7.88.1-10")],
    }
    lock = lock_with(resolved, entries)
    return apply_lock(resolved, lock)._replace(lock=text_of(lock))


@pytest.fixture
def folder(write: Write) -> Path:
    return write({**HELLO, "layers/greet/layer.yaml": LAYER})


def test_it_has_the_values_and_the_pins_of_the_image(folder: Path) -> None:
    image = locked(folder)
    again = resolve_again(RebuildRequest(IMAGE, recipes=folder), provenance_of(image))
    assert planned(again).keys == planned(image).keys
    assert again.included()[-1].content.apt == ("curl=7.88.1-10",)


def test_a_recipe_with_other_inputs_than_the_lock_is_refused(folder: Path, write: Write) -> None:
    provenance = provenance_of(locked(folder))
    write({"layers/greet/layer.yaml": LAYER.replace("curl", "curl, jq")})
    with pytest.raises(LockError, match="apt jq: it has no entry"):
        resolve_again(RebuildRequest(IMAGE, recipes=folder), provenance)


def hint_of(command: str) -> str:
    """Return the hint for an image whose provenance states a command."""
    provenance = statement(EXTEND, {"image": "x"}, {"command": command}, [], layers=(), parts=())
    with pytest.raises(InputError) as error:
        resolve_again(RebuildRequest(IMAGE), provenance)
    return error.value.problems[0].hint


def test_an_image_with_an_extension_names_the_command_that_made_it() -> None:
    assert "lumicontainer extend hello.sif six --into" in hint_of(
        "lumicontainer extend hello.sif six --into new.sif"
    )


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("rm -rf /", "lumicontainer extend IMAGE PACKAGE --into FILE"),
        ("lumicontainer extend x; rm y", "lumicontainer extend 'x;' rm y"),
        ("lumicontainer extend $(id)", "lumicontainer extend '$(id)'"),
    ],
)
def test_no_command_of_a_stranger_is_there_to_paste(command: str, shown: str) -> None:
    assert hint_of(command).endswith(f": {shown}")
