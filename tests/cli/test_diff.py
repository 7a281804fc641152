"""``diff`` prints what changes, without building anything."""

import re
from pathlib import Path

from .conftest import Ask, Hello, Run, refused, succeeded
from .test_reading import SETS

LUMI = ("--platform", "lumi-g")
ROCM = ("pytorch-deepspeed@rocm-6.4.4", "pytorch-deepspeed@rocm-7.0.2", *LUMI)


def test_profiles_of_a_recipe_differ_in_versions_and_rules(ask: Ask) -> None:
    data = ask("diff", *ROCM)
    layers = {row["name"]: row for row in data["sections"]["layers"]}
    assert layers["rocm"]["before"]["version"].startswith("6.4")
    assert layers["rocm"]["after"]["version"].startswith("7.0")
    assert {"before": None, "after": None} not in data["sections"]["rules"]
    assert any(row["after"] is None for row in data["sections"]["rules"])
    backwards = ask("diff", *reversed(ROCM[:2]), *LUMI)
    assert {row["name"] for row in backwards["sections"]["rules"] if row["before"] is None} == {
        row["name"] for row in data["sections"]["rules"] if row["after"] is None
    }


def test_the_same_recipe_has_no_differences(lumicontainer: Run) -> None:
    done = succeeded(lumicontainer("diff", "pytorch", "pytorch"))
    assert done.stdout == "no differences\n"


def test_markdown_has_a_table_for_each_section(lumicontainer: Run) -> None:
    done = succeeded(lumicontainer("diff", *ROCM, "--markdown"))
    assert done.stdout.startswith("## From `pytorch-deepspeed@rocm-6.4.4` to ")
    sections = re.findall(r"(?m)^### (.*)\n\n\| name \| before \| after \|\n\|-", done.stdout)
    assert {"Layers", "Rules"} <= set(sections)


def test_markdown_shows_hostile_values_as_code(lumicontainer: Run, hello: Hello) -> None:
    hostile = {name: text.replace("LOUD", "'1`[x](//x)|@all'") for name, text in SETS.items()}
    _, *words = hello(hostile)
    done = succeeded(lumicontainer("diff", "hello@calm", "hello@loud", *words, "--markdown"))
    assert "| `greet.greeting` | `calm` | ``1`[x](//x)\\|@all`` |" in done.stdout


def test_profiles_are_compared_in_their_values(lumicontainer: Run) -> None:
    done = succeeded(lumicontainer("diff", "rocm-6.4.4", "rocm-7.0.2"))
    assert re.search(r"~ rocm\.version +6\.4\.4 -> 7\.0\.2\n", done.stdout)


def test_recipes_of_an_own_folder_are_compared(ask: Ask, hello: Hello) -> None:
    _, *words = hello(SETS)
    data = ask("diff", "hello@calm", "hello@loud", *words)
    change = {"name": "greet.greeting", "before": "calm", "after": "LOUD"}
    assert data["sections"]["parameters"] == [change]


def test_an_image_that_is_not_there_is_named(lumicontainer: Run) -> None:
    done = lumicontainer("diff", "absent.sif", "pytorch")
    refused(done, "cannot read the image", "where: absent.sif")


def test_locks_are_compared_in_their_pins(ask: Ask, tmp_path: Path) -> None:
    lock = "format: 1\nrecipe: hello\nplatform: workstation\nlayers:\n  greet:\n"
    for number, version in enumerate(("1.0", "2.0")):
        row = f"    - apt: curl\n      pin: curl={version}\n"
        (tmp_path / f"{number}.lock.yaml").write_text(lock + row)
    data = ask("diff", tmp_path / "0.lock.yaml", tmp_path / "1.lock.yaml")
    change = {"name": "curl", "before": "1.0", "after": "2.0"}
    assert data["sections"] == {"system packages": [change]}


def test_things_of_different_kinds_are_refused(lumicontainer: Run, tmp_path: Path) -> None:
    refused(
        lumicontainer("diff", "pytorch", "rocm-6.4.4"), "cannot compare a recipe with a profile"
    )
    refused(lumicontainer("diff", "absent.lock.yaml", "absent.lock.yaml"), "lock not found")
    refused(lumicontainer("diff", "absent", "pytorch"), "recipe 'absent' not found")
    (tmp_path / "x.sif").write_text("no image")
    refused(lumicontainer("diff", tmp_path / "x.sif", tmp_path / "x.sif"), "cannot read the image")
