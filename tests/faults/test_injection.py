"""Texts that are made to be more than text, through every place where one reaches another language.

What the language's own reader gets is what was given, or the text is refused in words; nothing runs
here. Each reader reads thousands of values at once.
"""

import ast
import html.parser
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.render.jinja import fill
from lumicontainer.verify.html import page

from .hostile_texts import TEXTS, cases, give, named, nothing_runs

__all__ = ["nothing_runs"]


def run(command: Sequence[str], **env: str) -> str:
    """Return what a reader prints."""
    settings = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **env}
    done = subprocess.run(command, capture_output=True, check=False, env=settings)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.decode()


DUMP = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k[0] == 'V'}))"


@give(TEXTS)
def test_the_shell_of_a_job_gets_each_variable_and_word_as_it_was(
    texts: Sequence[str], tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "command.sh").touch()
    words = "import json, sys; print(json.dumps(sys.argv[1:]))"
    both = f"{DUMP}\n{words}"
    text = fill(
        "command.sh.j2",
        folder=str(folder),
        variables=named(texts),
        seen=[str(folder)],
        marks=[],
        current=str(tmp_path),
        command=[sys.executable, "-c", both, *texts],
    )
    (tmp_path / "script").write_text(text, newline="")
    run(["bash", str(tmp_path / "script")])
    variables, received = map(json.loads, (folder / "result").read_text().splitlines())
    assert variables == named(texts)
    assert received == texts


@give(TEXTS)
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_the_shell_of_an_image_sets_each_variable_as_it_was(
    shell: str, texts: Sequence[str], tmp_path: Path
) -> None:
    image = {"bootstrap": {"file": ""}}
    values: dict[str, Any] = {"image": image, "path": ["/opt/a/bin"]}
    text = fill("environment.sh.j2", constants=named(texts), defaults={}, lists={}, **values)
    (tmp_path / "env.sh").write_text(text, newline="")
    printed = run([shell, "-c", f'. ./env.sh; exec "$0" -c "{DUMP}"', sys.executable])
    assert json.loads(printed) == named(texts)


NAMES = [text for text in TEXTS if "/" not in text and 0 < len(text.encode()) < 200]


@give([name for name in NAMES[:150] if name not in (".", "..")])
def test_the_script_of_a_module_starts_the_programs_of_any_image(
    texts: Sequence[str], tmp_path: Path
) -> None:
    scripts, programs = tmp_path / "scripts", tmp_path / "bin"
    programs.mkdir()
    engine = programs / "apptainer"
    engine.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" END\n")
    engine.chmod(0o755)
    calls = []
    for number, name in enumerate(texts):
        image = tmp_path / f"images/{number}/{name}"
        image.parent.mkdir(parents=True)
        image.touch()
        (scripts / str(number)).mkdir(parents=True)
        values = {"mark": "x", "bin": name, "hint": name, "shell": "lumi-shell", "options": [name]}
        text = fill("module/program.sh.j2", image=str(image), **values)
        (scripts / str(number) / "python").write_text(text, newline="")
        calls.append((str(image), name))
    starts = f'for n in $(ls {scripts} | sort -n); do sh {scripts}/"$n"/python -c x || exit; done'
    printed = run(["sh", "-c", starts], PATH=f"{programs}:{os.environ['PATH']}")
    expected = [["--silent", "exec", name, image, "python", "-c", "x"] for image, name in calls]
    assert printed.split("\0END\0")[:-1] == ["\0".join(each) for each in expected]


MODULE = {
    "mark": "x",
    "name": "name",
    "version": "1",
    "family": "f",
    "conflicts": ["c"],
    "bin": "/b",
    "help": "x",
    "gone": "",
    "image": "/i",
}
LUA = r"""
local function out(...)
    for _, text in ipairs({...}) do
        io.write((text:gsub(".", function(c) return string.format("%02x", c:byte()) end)), " ")
    end
    io.write("\n")
end
function help(text) end
function whatis(text) out("W", text) end
function mode() return "unload" end
family, conflict, prepend_path = help, help, help
function pushenv(name, value) out("P", name, value) end
function append_path(row) out("A", row[1], row[2]) end
dofile(arg[1])
"""
TCL = r"""
fconfigure stdout -encoding utf-8
proc out {args} { foreach each $args {
    puts -nonewline "[binary encode hex [encoding convertto utf-8 $each]] " }; puts "" }
proc module-whatis {text} { out W $text }
proc module-info {args} { return 0 }
proc family {args} {}; proc conflict {args} {}; proc prepend-path {args} {}
proc pushenv {name value} { out P $name $value }
proc append-path {args} { out A [lindex $args end-1] [lindex $args end] }
set file [open [lindex $argv 0]]; fconfigure $file -encoding utf-8 -translation lf
eval [read $file]
"""


LUA_TEXTS = [text for text in TEXTS if "\r" not in text]
"""Lua reads a carriage return as a newline, and no path of ours has one."""
TCL_TEXTS = [text for text in LUA_TEXTS if max(text, default="") < "\U00010000"]


@give(LUA_TEXTS)
def test_a_module_file_in_lua_sets_each_value_as_it_was(
    texts: Sequence[str], tmp_path: Path
) -> None:
    assert_module_sets(texts, "lua", "lua", LUA, tmp_path)


@give(TCL_TEXTS)
def test_a_module_file_in_tcl_sets_each_value_as_it_was(
    texts: Sequence[str], tmp_path: Path
) -> None:
    assert_module_sets(texts, "tclsh", "tcl", TCL, tmp_path)


def assert_module_sets(
    texts: Sequence[str], reader: str, suffix: str, program: str, tmp_path: Path
) -> None:
    # Summaries are lines.
    values = {**MODULE, "binds": texts, "variables": named(texts)}
    text = fill(f"module/{suffix}.j2", summary="a 'b' [c] $d", **values)
    (tmp_path / "module").write_text(text, newline="")
    (tmp_path / "reader").write_text(program)
    rows = [
        [bytes.fromhex(word).decode() for word in line.split(" ")[:-1]]
        for line in run([reader, "reader", "module"]).splitlines()
    ]
    assert [row[1] for row in rows if row[0] == "W"][-1] == "Description: a 'b' [c] $d"
    assert [row[2] for row in rows if row[:2] == ["A", "SINGULARITY_BIND"]] == texts
    assert [row[2] for row in rows if row[0] == "P" and row[1] != "SIF"] == texts


@give(TEXTS)
def test_an_environment_definition_has_each_value_as_it_was_and_no_table_more(
    texts: Sequence[str],
) -> None:
    text = fill("edf.toml.j2", mark="x", image=texts[7], mounts=texts, variables=named(texts))
    data = tomllib.loads(text)
    assert data.keys() == {"image", "entrypoint", "writable", "mounts", "env"}
    read = {name: value.replace("$${", "${") for name, value in data["env"].items()}
    assert read == named(texts)
    assert len(data["mounts"]) == len(texts)


@give(TEXTS)
def test_a_test_class_has_each_value_as_it_was(texts: Sequence[str]) -> None:
    checks = {text: {"level": text, "seconds": 1, "mpi": False} for text in texts}
    values: dict[str, Any] = {"checks": checks, "levels": texts, "options": texts, "binds": texts}
    text = fill(
        "reframe.py.j2",
        image=texts[9],
        name="A",
        summary=texts[9],
        engine="B",
        tasks=1,
        cpus=1,
        **values,
    )
    tree = ast.parse(text)
    fields = {
        each.targets[0].id: ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Name)
        and each.targets[0].id in ("CHECKS", "LEVELS", "OPTIONS", "BINDS", "IMAGE")
    }
    assert fields == {name.upper(): value for name, value in {**values, "image": texts[9]}.items()}


class Page(html.parser.HTMLParser):
    """Collect the elements of a page and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.texts = [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def report(strings: Sequence[str]) -> Page:
    """Return the report of failed checks that say these texts in each of their fields."""
    row = {"state": "failed", "seconds": 1.0, "measured": [], "facts": {}, "ranks": []}
    rows = [
        {**row, **dict.fromkeys(("name", "summary", "reason", "hint", "again", "output"), text)}
        for text in strings
    ]
    place = {
        "host": strings[0],
        "nodes": 1,
        "ranks": 1,
        "gpus": 0,
        "architecture": "",
        "network": "",
    }
    about = {"recipe": strings[0], "file": strings[0], "platform": None, "key": "", "profile": ""}
    counts = {"passed": 0, "skipped": 0, "failed": len(rows), "error": 0}
    result = {"checks": rows, "counts": counts, "image": about, "place": place, "begun": "x"}
    read = Page()
    read.feed(page({**result, "seconds": 1.0, "level": "quick", "lumicontainer": "1"}).decode())
    return read


@give([text for text in TEXTS if text])
def test_a_report_shows_each_text_and_has_no_element_more(texts: Sequence[str]) -> None:
    plain, hostile = report(["plain"] * 3), report(texts)
    assert hostile.elements <= plain.elements | {"details", "summary"}
    assert hostile.attributes <= plain.attributes | {"open"}
    shown = {" ".join(text.split()) for text in hostile.texts}
    missing = [text for text in texts if "\r" not in text and " ".join(text.split()) not in shown]
    assert missing == []


def test_there_are_ten_thousand_cases() -> None:
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    tests.remove(test_there_are_ten_thousand_cases)
    assert [test.__name__ for test in tests if not cases(test)] == []
    assert sum(map(cases, tests)) >= 10_000
