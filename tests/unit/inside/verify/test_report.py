"""A report is written whole wherever it goes, or that is an error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from junitparser import JUnitXml

from ....namespaces import prepared
from .verifying import HOLDS, Image, Ran

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("said", ["-", "/dev/stdout"])
@pytest.mark.parametrize("option", ["--json", "--junit"])
def test_what_stands_for_stdout_gets_one_whole_report_and_nothing_else(
    image: Image, option: str, said: str
) -> None:
    for name in ("one", "two"):
        image.add(name, HOLDS)
    text = Ran(image.start(option, said)).stdout
    assert len(json.loads(text) if option == "--json" else JUnitXml.fromstring(text))


@pytest.mark.parametrize("where", [">/dev/full", ">&-", "2>/dev/full", "2>&-", ">&- 2>&-"])
def test_a_report_is_written_though_messages_are_lost(image: Image, where: str) -> None:
    image.add("holds", HOLDS)
    image.add("fails", "#!/bin/bash\necho gone\nexit 1\n")
    before = ("bash", "-c", f'exec "$@" {where}', "bash")
    assert Ran(image.start("--json", "out.json", before=before)).code == 1
    rows = json.loads((image.root / "out.json").read_text())["checks"]
    assert sorted((row["state"], row["output"]) for row in rows) == [
        ("failed", "gone\n"),
        ("passed", "it holds\n"),
    ]


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("words", ["--list", "--json -"])
def test_a_result_that_stdout_does_not_take_is_an_error(
    image: Image, words: str, where: str
) -> None:
    image.add("one", HOLDS)
    ran = Ran(image.start(before=("bash", "-c", f'exec "$@" {words} {where}', "bash")))
    assert (ran.code, ran.stdout) == (2, "")
    assert "error: cannot write '-'" in ran.stderr


def test_a_pipe_gets_one_whole_report(image: Image) -> None:
    for name in ("one", "two"):
        image.add(name, HOLDS)
    pipe = image.root / "pipe"
    os.mkfifo(pipe)
    running = image.start("--json", "pipe")
    assert [row["name"] for row in json.loads(pipe.read_text())["checks"]] == ["t/one", "t/two"]
    assert Ran(running).code == 0


def test_a_file_that_is_bound_alone_is_written_in_its_place(image: Image, own: Path) -> None:
    image.add("one", HOLDS)
    out = image.root / "out.json"
    out.write_text("before")
    sealed = f"mount -t tmpfs none {own} && touch {own}/x && mount --bind {out} {own}/x"
    sealed += f" && mount -o remount,ro,bind {own}"
    ran = Ran(image.start("--json", f"{own}/x", before=prepared("mount", sealed)))
    assert ran.code == 0, ran.stderr
    assert json.loads(out.read_text())["counts"]["passed"] == 1
