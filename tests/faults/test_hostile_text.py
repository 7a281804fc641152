"""Values, names and records that are made to steer a terminal, through each verb."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import HELLO, Write
from ..unit.terminals import Terminal
from ..unit.verify.test_inspect import made

STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\b\u202egnp\u2066x"
RAW = tuple("\x00\x07\x08\r\x1b\x7f\x9b\u202e\u2066")
YAML = json.dumps(STEERING)
PROGRAM = (sys.executable, "-m", "lumicontainer")


def run(*words: object, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)], env={**os.environ, **env}, capture_output=True, check=False
    )


def steering(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """Return what of a program's output a terminal would obey, and lines that are none of ours."""
    printed = (done.stdout + b"\n" + done.stderr).decode("utf-8", "surrogateescape")
    return [text for text in (*RAW, "\nerror: forged") if text in printed]


VERBS = (
    *(["show"], ["show", "--json"], ["check"], ["check", "--json"], ["build", "--dry-run"]),
    *(["cache", "explain"], ["cache", "explain", "--json"]),
)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_value_is_shown_escaped(words: list[str], write: Write) -> None:
    option = f"greet.greeting={STEERING}"
    done = run(*words, "hello", "--recipes", write(HELLO), "--set", option)
    assert done.returncode == 0, done.stderr
    assert steering(done) == []
    if words == ["show"]:
        assert rb"\x1b]0;owned\x07\x1b[2J" in done.stdout


LINES = f"{STEERING}\nerror: forged"


@pytest.mark.parametrize(
    "words",
    [
        *([LINES], ["help", LINES], ["show", LINES], ["show", "hello", f"--{LINES}"]),
        *(["show", "hello", option, LINES] for option in ("--platform", "--profile", "--kind")),
        *(["show", "hello", "--set", LINES], ["show", "hello", "--set", f"greet.{LINES}=1"]),
        ["show", "hello", "--set", f"greet.times={LINES}"],
        *(["check", "hello", "--explain", LINES], ["render", "hello", "--format", LINES]),
        *([verb, "hello", "--output", f"/nowhere/{LINES}"] for verb in ("lock", "build")),
        ["build", "hello", "--dry-run", "--output", LINES],
        *(["build", "hello", option, LINES] for option in ("--secret", "--mirror")),
        *([verb, LINES] for verb in ("inspect", "binds", "verify", "reframe", "cache", "debug")),
        *(["run", LINES, "--", "true"], ["verify", LINES, "--require", LINES]),
        *(["cache", "prune", "--max-size", LINES], ["list", "--recipes", LINES]),
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
def test_a_record_of_an_image_is_escaped(words: list[str], write: Write, tmp_path: Path) -> None:
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
def test_documents_are_utf8_and_files_of_any_name_found_whatever_the_locale(
    env: dict[str, str], tmp_path: Path, write: Write
) -> None:
    script = 'set -euo pipefail\necho "… Ünï"\n'
    folder = write({**HELLO, "layers/greet/install.sh": script}).rename(tmp_path / "Ünï")
    words = ("hello", "--recipes", folder, "--set", "greet.greeting=Grüße …")
    for form in ("def", "dockerfile"):
        expected = run("render", *words, "--format", form, LC_ALL="C.UTF-8")
        assert expected.returncode == 0, expected.stderr
        assert run("render", *words, "--format", form, **env).stdout == expected.stdout
    output = tmp_path / "Ünï.sif"
    done = run("build", *words, "--output", output, "--dry-run", "--json", **env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["image"] == str(output)
