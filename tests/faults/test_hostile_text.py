"""Values, names and records that are made to steer a terminal, through each verb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import HELLO, Write
from ..unit.terminals import Terminal
from ..unit.test_inspect import made

STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\b\u202egnp\u2066x"
RAW = tuple("\x00\x07\x08\r\x1b\x7f\x9b\u202e\u2066")
YAML = json.dumps(STEERING)
PROGRAM = (sys.executable, "-m", "lumicontainer")


def run(*words: object, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)], env={**os.environ, **env}, capture_output=True, check=False
    )


def steering(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """Return what of a program's output a terminal would obey."""
    printed = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
    return [char for char in RAW if char in printed]


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["show", "--json"],
        ["check"],
        ["check", "--json"],
        ["build", "--dry-run"],
        ["cache", "explain"],
        ["cache", "explain", "--json"],
    ],
    ids=" ".join,
)
def test_a_value_is_shown_escaped(words: list[str], write: Write) -> None:
    option = f"greet.greeting={STEERING}"
    done = run(*words, "hello", "--recipes", write(HELLO), "--set", option)
    assert done.returncode == 0, done.stderr
    assert steering(done) == []
    if words == ["show"]:
        assert rb"\x1b]0;owned\x07\x1b[2J" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        [STEERING],
        ["help", STEERING],
        ["show", STEERING],
        ["show", "hello", "--platform", STEERING],
        ["show", "hello", "--profile", STEERING],
        ["show", "hello", "--set", STEERING],
        ["show", "hello", "--set", f"greet.{STEERING}=1"],
        ["show", "hello", "--set", f"greet.times={STEERING}"],
        ["check", "hello", "--explain", STEERING],
        ["render", "hello", "--format", STEERING],
        ["lock", "hello", "--output", f"/nowhere/{STEERING}"],
        ["build", "hello", "--output", f"/nowhere/{STEERING}"],
        ["build", "hello", "--dry-run", "--output", STEERING],
        ["build", "hello", "--secret", STEERING],
        ["build", "hello", "--mirror", STEERING],
        ["inspect", STEERING],
        ["binds", STEERING],
        ["run", STEERING, "--", "true"],
        ["verify", STEERING],
        ["verify", STEERING, "--require", STEERING],
        ["reframe", STEERING],
        ["cache", STEERING],
        ["cache", "prune", "--max-size", STEERING],
        ["debug", STEERING],
        ["list", "--recipes", STEERING],
    ],
    ids=lambda words: " ".join(words).encode("ascii", "backslashreplace").decode(),
)
def test_a_word_of_the_command_line_is_shown_escaped(words: list[str], write: Write) -> None:
    own = ["--recipes", write(HELLO)] if "hello" in words else []
    assert steering(run(*words, *own)) == []


@pytest.mark.parametrize(
    "files",
    [
        {"hello.yaml": f"summary: {YAML}\nbase: tiny\nlayers: [greet]\n"},
        {"hello.yaml": f"summary: x\nbase: tiny\nlayers: [{YAML}]\n"},
        {"hello.yaml": f"{YAML}: x\n"},
        {"hello.yaml": f"summary: x\nbase: tiny\nlayers: [greet: {{{YAML}: 1}}]\n"},
        {"hello.yaml": f"summary: x\nbase: tiny\nlayers: [greet: {{times: {YAML}}}]\n"},
        {"layers/greet/layer.yaml": f"summary: {YAML}\n"},
        {"layers/greet/layer.yaml": f"summary: x\nenvironment: {{A: {YAML}}}\n"},
        {"layers/greet/layer.yaml": f"summary: x\nrequires: [{YAML}]\n"},
        {"layers/greet/layer.yaml": f"summary: x\npackages: {{apt: [{YAML}]}}\n"},
        {f"{STEERING}.yaml": "summary: x\nbase: tiny\nlayers: [greet]\n"},
        {f"layers/greet/{STEERING}": "x"},
        {"envs/workstation.yaml": f"summary: {YAML}\naccelerator: cpu\n"},
    ],
    ids=lambda files: next(iter(files.items()))[0].encode("ascii", "backslashreplace").decode(),
)
def test_a_document_is_reported_with_escapes(files: dict[str, str], write: Write) -> None:
    folder = write({**HELLO, **files})
    for verb in (["show", "hello"], ["list"], ["show", "workstation"]):
        assert steering(run(*verb, "--recipes", folder)) == []


RECORD = {
    "recipe": STEERING,
    "summary": STEERING,
    "platform": {"name": STEERING, "accelerator": STEERING},
    "profile": STEERING,
    "binds": [{"path": f"/usr/{STEERING}", "why": f"{STEERING}\nrm -rf /", "source": STEERING}],
    "layers": {STEERING: {"version": STEERING, "parameters": {STEERING: STEERING}}},
    "omitted": {STEERING: f"{STEERING}\nnext"},
}
SITE = "summary: x\naccelerator: cpu\nbinds: [{path: /usr, reason: data lies there}]\n"


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--json"], ["binds"], ["verify"]])
def test_the_record_of_an_image_is_shown_escaped(
    words: list[str], write: Write, tmp_path: Path
) -> None:
    image = made(tmp_path, json.dumps(RECORD))
    own = ["--platform", "site", "--recipes", write({**HELLO, "envs/site.yaml": SITE})]
    done = run(*words, image, *(own if words != ["inspect"] and len(words) == 1 else []))
    assert steering(done) == []
    assert b"\nrm" not in done.stdout


def test_a_document_is_exact_in_a_pipe_and_escaped_on_a_terminal(write: Write) -> None:
    folder = write({**HELLO, "layers/greet/install.sh": "# \u202e\n"})
    words = ["render", "hello", "--recipes", str(folder)]
    assert "\n# \u202e\n".encode() in run(*words).stdout
    terminal = Terminal()
    try:
        subprocess.run([*PROGRAM, *words], stdout=terminal.stream, check=True)
        terminal.finish()
        assert "\u202e" not in terminal.text
        assert "\n# \\u202e\r\n" in terminal.text
    finally:
        terminal.close()


LOCALES = [
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LANG": "C", "LC_ALL": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX"},
]


@pytest.mark.parametrize("env", LOCALES, ids=" ".join)
@pytest.mark.parametrize("form", ["def", "dockerfile"])
def test_a_document_is_utf8_whatever_the_locale(
    form: str, env: dict[str, str], write: Write
) -> None:
    script = 'set -euo pipefail\necho "… Ünï"\n'
    folder = write({**HELLO, "layers/greet/install.sh": script})
    words = ("render", "hello", "--recipes", folder, "--format", form)
    words = (*words, "--set", "greet.greeting=Grüße …")
    wanted = run(*words, LC_ALL="C.UTF-8")
    assert wanted.returncode == 0, wanted.stderr
    if form == "def":
        assert script.encode() in wanted.stdout
        assert "Grüße …".encode() in wanted.stdout
    assert run(*words, **env).stdout == wanted.stdout


@pytest.mark.parametrize("env", LOCALES, ids=" ".join)
def test_files_of_any_name_are_found_whatever_the_locale(
    env: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "Ünï"
    for name, text in HELLO.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    output = tmp_path / "Ünï.sif"
    words = ("build", "hello", "--recipes", folder, "--output", output, "--dry-run", "--json")
    done = run(*words, **env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["image"] == str(output)


@pytest.mark.parametrize(
    "words",
    [
        ["x\nerror: y"],
        ["show", "x\nerror: y"],
        ["show", "pytorch", "--x\nerror: y"],
        ["show", "pytorch", "--kind", "x\nerror: y"],
        ["show", "pytorch", "--set", "x\nerror: y"],
        ["show", "pytorch", "--set", "pytorch.index=x\nerror: y"],
        ["inspect", "x\nerror: y"],
    ],
)
def test_no_line_of_a_word_looks_like_a_message(words: list[str]) -> None:
    done = run(*words)
    assert b"\nerror: y" not in b"\n" + done.stdout + b"\n" + done.stderr
