"""A recipe is named by its file as well as by its name."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ..conftest import HELLO, ROOT, Write
from .conftest import Ask, Hello, Run, refused

VERBS = [["show"], ["check"], ["render"], ["build", "--dry-run"], ["cache", "explain"]]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_the_folder_of_a_recipes_file_is_where_its_layers_are(
    lumicontainer: Run, hello: Hello, verb: list[str]
) -> None:
    *_, folder = words = hello()
    named = lumicontainer(*verb, *words)
    assert named.returncode == 0, named.stderr
    for file, place in ((folder / "hello.yaml", "/"), ("own/hello.yaml", folder.parent)):
        done = lumicontainer(*verb, file, cwd=place)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("hello") == named.stdout.count("hello")
    # A file of the present folder needs no folder before it.
    assert lumicontainer(*verb, "hello.yaml", cwd=folder).returncode == 0


def test_an_image_is_called_as_the_recipe_is(ask: Ask, write: Write) -> None:
    folder = write(HELLO)
    planned = ask("build", folder / "hello.yaml", "--dry-run", cwd=folder.parent)
    assert planned["image"] == str(folder.parent / "hello.sif")


def test_a_file_of_the_shipped_recipes_is_the_shipped_recipe(ask: Ask) -> None:
    file, name = "recipes/pytorch-deepspeed.yaml", "pytorch-deepspeed"
    assert ask("show", file, cwd=ROOT) == ask("show", name, cwd=ROOT)


def test_the_hint_for_a_missing_lock_names_the_file_again(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    done = lumicontainer("build", folder / "hello.yaml", "--locked", cwd=folder.parent)
    where = "where: own/locks/hello.workstation.lock.yaml\n"
    refused(done, where, "lumicontainer lock own/hello.yaml --platform workstation", code=4)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (os.mkfifo, "cannot read a pipe\n  where: own/other.yaml\n"),
        (lambda path: path.symlink_to("gone"), "cannot read a symbolic link\n  where: own/other"),
    ],
    ids=["pipe", "dangling link"],
)
def test_what_is_no_file_is_not_called_missing(
    lumicontainer: Run, write: Write, other: Callable[[Path], None], error: str
) -> None:
    folder = write(HELLO)
    other(folder / "other.yaml")
    refused(lumicontainer("check", "own/other.yaml", cwd=folder.parent), error)


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
    refused(lumicontainer(*verb, word, cwd=write(HELLO).parent), hint)


def test_two_folders_are_refused(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    words = ("show", folder / "hello.yaml", "--recipes")
    assert lumicontainer(*words, folder).returncode == 0
    refused(lumicontainer(*words, folder.parent), "leave --recipes out")


@pytest.mark.parametrize("verb", ["build", "show"])
def test_a_file_that_lies_near_is_named(lumicontainer: Run, write: Write, verb: str) -> None:
    folder = write(HELLO)
    refused(lumicontainer(verb, "hello", cwd=folder), "name its file: ./hello.yaml")
    folder.rename(folder.with_name("hello"))
    done = lumicontainer(verb, "hello", cwd=folder.parent)
    refused(done, "name its file: hello/hello.yaml")


def test_a_file_is_shown_as_a_recipe_whatever_its_name(lumicontainer: Run, write: Write) -> None:
    recipe = "summary: x\nbase: tiny\nlayers: [greet]\n"
    done = lumicontainer("show", write({**HELLO, "greet.yaml": recipe}) / "greet.yaml")
    assert (done.returncode, done.stderr) == (0, "")
