"""A recipe is named by its file as well as by its name."""

import json
from pathlib import Path

import pytest

from ..conftest import HELLO, ROOT, Write
from .conftest import Run

VERBS = [
    ["show"],
    ["check"],
    ["render"],
    ["build", "--dry-run"],
    ["cache", "explain"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_the_folder_of_a_recipes_file_is_where_its_layers_are(
    lumicontainer: Run, write: Write, verb: list[str]
) -> None:
    folder = write(HELLO)
    named = lumicontainer(*verb, "hello", "--recipes", folder)
    assert named.returncode == 0, named.stderr
    for file in (folder / "hello.yaml", "own/hello.yaml"):
        done = lumicontainer(*verb, file, cwd=folder.parent)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("hello") == named.stdout.count("hello")


def test_a_file_of_the_present_folder_needs_no_folder_before_it(
    lumicontainer: Run, write: Write
) -> None:
    done = lumicontainer("render", "hello.yaml", cwd=write(HELLO))
    assert done.returncode == 0, done.stderr


def test_an_image_is_called_as_the_recipe_is(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    done = lumicontainer("build", folder / "hello.yaml", "--dry-run", "--json", cwd=folder.parent)
    assert json.loads(done.stdout)["image"] == str(folder.parent / "hello.sif")


def test_a_file_of_the_shipped_recipes_is_the_shipped_recipe(lumicontainer: Run) -> None:
    by_file = lumicontainer("show", "recipes/pytorch.yaml", "--json", cwd=ROOT)
    assert by_file.stdout == lumicontainer("show", "pytorch", "--json", cwd=ROOT).stdout != ""


def test_the_hint_for_a_missing_lock_names_the_file_again(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    done = lumicontainer("build", folder / "hello.yaml", "--locked", cwd=folder.parent)
    assert done.returncode == 4
    assert "lumicontainer lock own/hello.yaml --platform workstation" in done.stderr


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("own/helo.yaml", "did you mean 'own/hello.yaml'?"),
        ("own/hello.yml", "did you mean 'own/hello.yaml'?"),
        ("own/other.yml", "rename it to other.yaml"),
        ("own/", "name a file in it"),
        ("nowhere/hello.yaml", "lumicontainer init"),
    ],
)
@pytest.mark.parametrize("verb", [["build"], ["verify", "x.sif", "--recipe"], ["lock"]])
def test_a_file_that_is_none_of_a_recipe_gets_a_hint(
    lumicontainer: Run, write: Write, verb: list[str], word: str, hint: str
) -> None:
    done = lumicontainer(*verb, word, cwd=write(HELLO).parent)
    assert done.returncode == 2
    assert hint in done.stderr


def test_rules_beside_recipes_are_no_recipe(lumicontainer: Run, write: Write) -> None:
    done = lumicontainer("build", write({**HELLO, "rules.yaml": "{}\n"}) / "rules.yaml")
    assert done.returncode == 2
    assert "recipe 'rules' not found" in done.stderr


def test_two_folders_are_refused(lumicontainer: Run, write: Write, tmp_path: Path) -> None:
    folder = write(HELLO)
    words = ("show", folder / "hello.yaml", "--recipes")
    assert lumicontainer(*words, folder).returncode == 0
    done = lumicontainer(*words, tmp_path)
    assert done.returncode == 2
    assert "leave --recipes out" in done.stderr


@pytest.mark.parametrize("verb", ["build", "show"])
def test_of_a_name_whose_file_lies_near_the_file_is_named(
    lumicontainer: Run, write: Write, verb: str
) -> None:
    folder = write(HELLO)
    done = lumicontainer(verb, "hello", cwd=folder)
    assert done.returncode == 2
    assert "name its file: ./hello.yaml" in done.stderr
    folder.rename(folder.with_name("hello"))
    done = lumicontainer(verb, "hello", cwd=folder.parent)
    assert "name its file: hello/hello.yaml" in done.stderr


def test_a_file_is_shown_as_a_recipe_whatever_else_has_its_name(
    lumicontainer: Run, write: Write
) -> None:
    recipe = "summary: x\nbase: tiny\nlayers: [greet]\n"
    done = lumicontainer("show", write({**HELLO, "greet.yaml": recipe}) / "greet.yaml")
    assert (done.returncode, done.stderr) == (0, "")
