"""Deliberate faults that the host's own checks find: in the file, of the recipe, on another host.

Each is made in an image that holds, which the last tests show; the check that is to find it does,
and its reason names what is wrong.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.image import digests, sif, sif_format
from lumicontainer.image.inspect import KEY_LABEL

from ..integration.conftest import (
    SMALL,
    lumicontainer,
    proof,
    proof_recipes,
)
from ..integration.proof import write_proof
from ..unit.compiled import Root

__all__ = ["proof", "proof_recipes"]

LIBRARY = "/opt/driver/lib/libdriver.so.1"
DRIVER = {
    "driver.yaml": "summary: takes a library of its host\nbase: tiny\nlayers: [driver]\n",
    "layers/tiny/layer.yaml": SMALL["layers/tiny/layer.yaml"],
    "layers/driver/layer.yaml": (
        "summary: the driver's library is the host's\n"
        f"host_libraries:\n  - {{path: {LIBRARY}, reason: it fits the driver}}\n"
    ),
    "layers/driver/install.sh": "true\n",
}


@dataclass
class Subject:
    """Hold an image, its recipes and a host, all of which a fault may change."""

    image: Path
    recipes: Path
    host: Root


def cut(subject: Subject) -> None:
    with subject.image.open("r+b") as file:
        file.truncate(subject.image.stat().st_size - 5000)


def overwrite(subject: Subject) -> None:
    place = sif.partitions(subject.image)[-1].offset
    with subject.image.open("r+b") as file:
        file.seek(place)
        file.write(b"\0" * 4096)


def unlabel(subject: Subject) -> None:
    """Take the key from an image, and the record of its digests, which would show it."""
    content = subject.image.read_bytes()
    for name in (KEY_LABEL.encode(), digests.NAME.encode()):
        assert content.count(name) == 1
        content = content.replace(name, b"x" * len(name))
    header = sif_format.read_header(content)
    assert header is not None
    other = header._replace(identity=bytes(16)).packed()
    subject.image.write_bytes(other + content[len(other) :])


def edit(name: str, old: str, new: str) -> Callable[[Subject], None]:
    def change(subject: Subject) -> None:
        path = subject.recipes / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def without_driver(subject: Subject) -> None:
    (subject.host.path / LIBRARY.lstrip("/")).unlink()


LAYER = "layers/proof/layer.yaml"
FAULTS = {
    "a file that is cut short": (cut, "host/whole", ["it is cut short"]),
    "a file system that is overwritten": (overwrite, "host/whole", ["there is no squashfs"]),
    "no label of its key": (unlabel, "host/key", [f"no label {KEY_LABEL}"]),
    "a stale recipe, by a value": (
        edit(LAYER, "default: 1", "default: 2"),
        "host/recipe",
        ["layers.proof.parameters.strength: 1 in the image, 2 by the recipe"],
    ),
    "a stale recipe, by a variable": (
        edit(LAYER, "it is here", "it is there"),
        "host/recipe",
        ["layers.proof.environment.PROOF", "it is there"],
    ),
    "a stale recipe, by a script": (
        edit("layers/proof/install.sh", "true", "echo something else"),
        "host/recipe",
        ["a script or another file of a layer"],
    ),
    "a recipe that does not build any more": (
        edit("proof.yaml", "[proof]", "[prof]"),
        "host/recipe",
        ["prof", "did you mean 'proof'?"],
    ),
}
OF_HOSTS = {
    "a host without the driver's library": (without_driver, ["the host has no libdriver.so.1"]),
}


def found(image: Path, name: str, *words: object) -> tuple[str, str]:
    """Return the state of a check of an image, and the reason."""
    done = lumicontainer("verify", image, "-k", name, "--json", *words)
    assert done.stdout, done.stderr
    (row,) = json.loads(done.stdout)["checks"]
    assert (row["name"], done.returncode) == (name, int(row["state"] == "failed"))
    return row["state"], row["reason"]


@pytest.fixture
def subject(proof: Path, tmp_path: Path) -> Subject:
    """Return a copy of the image that holds, and its recipes."""
    image = tmp_path / "proof.sif"
    shutil.copy(proof, image)
    return Subject(image, write_proof(tmp_path / "own"), Root(tmp_path / "host"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build an image that takes a library of its host; return it, and its recipes."""
    own = tmp_path_factory.mktemp("own")
    for name, text in DRIVER.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    image = own / "driver.sif"
    done = lumicontainer("build", "driver", "--recipes", own, "--output", image)
    assert done.returncode == 0, done.stderr
    return image, own


@pytest.fixture
def host(tmp_path: Path) -> Root:
    """Return a host whose library and what it needs load in the image."""
    root = Root(tmp_path / "host")
    below = root.library("/opt/driver/lib/libbelow.so.1", defines=["below"])
    flags = ["-Wl,-rpath,$ORIGIN"]
    root.library(LIBRARY, uses=["below"], needs=[below], flags=flags)
    return root


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_an_image_is_found(subject: Subject, fault: str) -> None:
    break_it, name, words = FAULTS[fault]
    break_it(subject)
    state, reason = found(subject.image, name, *_against(subject, name))
    assert state == "failed"
    for word in words:
        assert word in reason


@pytest.mark.parametrize("fault", OF_HOSTS)
def test_a_fault_of_a_host_is_found(driver: tuple[Path, Path], host: Root, fault: str) -> None:
    image, own = driver
    break_it, words = OF_HOSTS[fault]
    break_it(Subject(image, own, host))
    state, reason = found(image, "host/libraries", "--recipes", own, "--host-root", host.path)
    assert state == "failed"
    for word in words:
        assert word in reason


@pytest.mark.parametrize("name", ["host/whole", "host/key", "host/recipe"])
def test_without_a_fault_each_holds(subject: Subject, name: str) -> None:
    assert found(subject.image, name, *_against(subject, name)) == ("passed", "")


def test_without_a_key_nothing_proves_that_an_image_is_what_its_recipe_makes(
    subject: Subject,
) -> None:
    unlabel(subject)
    edit("layers/proof/install.sh", "true", "echo something else")(subject)
    state, reason = found(subject.image, "host/recipe", *_against(subject, "host/recipe"))
    assert state == "skipped"
    assert "without a key its scripts are not known" in reason


def test_a_host_whose_libraries_load_holds(driver: tuple[Path, Path], host: Root) -> None:
    image, own = driver
    words = ("--recipes", own, "--host-root", host.path)
    assert found(image, "host/libraries", *words) == ("passed", "")


def _against(subject: Subject, name: str) -> tuple[object, ...]:
    recipe = ("--recipe", "proof", "--recipes", subject.recipes)
    return recipe if name == "host/recipe" else ()
