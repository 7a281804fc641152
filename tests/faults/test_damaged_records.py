"""Records of an image that are damaged, foreign or hostile: read as they are meant, or refused.

Whatever an image holds, a command ends with an error in words, never with one of its own. Each
mutation is a record of a real kind with one change: a value of another type, a name that is gone,
a byte that is another, a text cut short.
"""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cli import main
from lumicontainer.image import records, sif
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.image.records import CHECKS, METADATA, PACKAGES, RESOLVED, RecordError, parse

from ..conftest import ROOT
from ..integration.conftest import lumicontainer
from ..unit.test_inspect import HELLO, packed
from .test_recipe_folders import device, listening, pipe, unread

MUTATIONS = 2000
SEED = 9
HOME = "opt/lumicontainer"

CHECK = {
    "name": "image/x",
    "summary": "it works",
    "hint": "build it again",
    "file": "checks/image/x.sh",
    "level": "quick",
    "runs": "once",
    "timeout_seconds": 60,
    "needs": {"mpi": True},
    "imports": ["torch"],
    "start_modes": ["exec", "run"],
    "thresholds": {"speed": {"atleast": 3.5, "unit": "GB/s"}},
}
LAYER = {
    "parameters": {"index": "https://example.org", "fast": True, "level": 3},
    "origins": {"version": "layer", "index": "recipe"},
    "version": "2.9.1",
    "environment": {"MODE": "x"},
}
BIND = {"path": "/opt/cray", "reason": "libraries lie there", "source": "https://example.org"}
RECORDS: dict[str, tuple[Any, records.Schema]] = {
    "resolved.json": (
        {**HELLO, "layers": {"torch": LAYER}, "omitted": {"rocm": "no GPU"}}
        | {"profile": "rocm-6.4.4", "binds": [BIND], "host_libraries": [BIND]},
        RESOLVED,
    ),
    "checks.json": ([CHECK, {**CHECK, "name": "image/y"}], CHECKS),
    "packages.json": ({"system": {"tar": "1.34"}, "python": {"torch": "2.9.1"}}, PACKAGES),
    "metadata": (
        {
            "data": {"attributes": {"labels": {KEY_LABEL: "f00d"}, "deffile": "Bootstrap: x\n"}},
            "type": "container",
        },
        METADATA,
    ),
}
WRONG = (None, True, -1, 0.5, "", "x", "\x1b[2J\x00", [], {}, [[]], {"": None}, ["a"], 10**400)
"""What stands in the place of a value."""
TEXTS = (
    b"",
    b"null",
    b"[" * 60_000,
    b'{"a":' * 60_000,
    b"\xff\xfe{}",
    b'{"recipe": "\\ud800"}',
    b"NaN",
    b"9" * 5_000,
    b"\x00",
)
"""What stands in the place of a whole record."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a record."""
    yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, (*path, name))
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from places(each, (*path, position))


def mutated(value: Any, chance: random.Random) -> bytes:
    """Return a record with one change."""
    text = json.dumps(value).encode()
    way = chance.choice(("type", "type", "gone", "byte", "cut", "whole"))
    if way == "whole":
        return chance.choice(TEXTS)
    if way == "cut":
        return text[: chance.randrange(len(text))]
    if way == "byte":
        at = chance.randrange(len(text))
        return text[:at] + bytes([text[at] ^ 1 << chance.randrange(8)]) + text[at + 1 :]
    path = chance.choice([each for each in places(value) if each])
    value = copy.deepcopy(value)
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    if way == "gone":
        del holder[path[-1]]
    else:
        holder[path[-1]] = chance.choice(WRONG)
    return json.dumps(value).encode()


def mutations(name: str, number: int) -> Iterator[bytes]:
    chance = random.Random(f"{SEED} {name}")
    return (mutated(RECORDS[name][0], chance) for _ in range(number))


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_as_it_is_written_is_read_as_it_is(name: str) -> None:
    value, schema = RECORDS[name]
    assert parse(json.dumps(value).encode(), schema) == value


@pytest.mark.parametrize("name", RECORDS)
def test_a_mutated_record_is_of_its_form_or_is_refused_in_words(name: str) -> None:
    schema = RECORDS[name][1]
    refused = 0
    for content in mutations(name, MUTATIONS // len(RECORDS)):
        try:
            value = parse(content, schema)
        except RecordError as error:
            assert str(error), content
            assert len(str(error)) < 600, content
            refused += 1
        else:
            records.require_schema(schema, value, "")
            json.dumps(value, indent=2).encode("utf-8")
    assert refused > MUTATIONS // len(RECORDS) // 4


def image(folder: Path, name: str, content: bytes) -> Path:
    """Write an image of which one record has this content, and the others are as they should be."""
    texts: dict[str, str | bytes] = {
        f"{HOME}/{each}": json.dumps(value) for each, (value, _) in RECORDS.items()
    }
    texts[f"{HOME}/recipe.yaml"] = "summary: x\n"
    metadata: Any = RECORDS["metadata"][0]
    if name == "metadata":
        metadata = content
    else:
        texts[f"{HOME}/{name}"] = content
    return packed(folder, texts, metadata)


VERBS = {
    "resolved.json": (["inspect"], ["inspect", "--json"], ["binds"], ["verify", "--list"]),
    "checks.json": (["verify", "--list"], ["reframe"]),
    "packages.json": (["inspect", "--packages"], ["inspect", "--packages", "--json"]),
    "metadata": (["inspect"], ["inspect", "--definition"], ["verify", "-k", "host/key"]),
}
"""The commands that read a record."""
FEW = 8
"""Mutations of each record that go through every command that reads it."""


def words(verb: list[str], path: Path) -> list[str]:
    """Return the words of a command; none of these starts a container."""
    platform = ["--platform", "workstation"] if verb[0] in ("binds", "reframe") else []
    return [*verb, *platform, str(path)]


@pytest.mark.parametrize("name", RECORDS)
def test_no_command_fails_over_a_mutated_record(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    contents = [*mutations(name, FEW), b'{"data":null}', b"[" * 60_000, b"{", b'["a", 1]']
    for number, content in enumerate(contents):
        path = image(tmp_path / str(number), name, content)
        for verb in VERBS[name]:
            code = main(words(verb, path))
            printed = capfd.readouterr()
            assert code in (0, 1, 2), (verb, content, printed.err)
            assert "bug" not in printed.err, (verb, content)
            if code == 2:
                assert printed.err.startswith("error: "), (verb, content)


@pytest.mark.parametrize("name", ["resolved.json", "checks.json", "packages.json"])
def test_a_damaged_record_is_named_with_what_is_wrong_in_it(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = image(tmp_path, name, b'{"data":null}')
    assert main(words(list(VERBS[name][0]), path)) == 2
    printed = capfd.readouterr().err
    assert f"/opt/lumicontainer/{name}" in printed
    assert "expected" in printed or "is missing" in printed


@pytest.mark.parametrize("content", [b'{"data":null}', b"[" * 60_000, b"{}", b""])
def test_run_starts_no_image_whose_record_is_damaged(content: bytes, tmp_path: Path) -> None:
    done = lumicontainer("run", image(tmp_path, "resolved.json", content), "--", "true")
    assert done.returncode == 2, done.stderr
    assert "a record of the image is damaged" in done.stderr


@pytest.mark.parametrize("verb", ["inspect", "binds", "run", "verify", "reframe"])
def test_an_image_from_elsewhere_is_refused_by_every_verb(verb: str, tmp_path: Path) -> None:
    path = packed(tmp_path, {"bin/sh": "x"}, {"data": {"attributes": {"labels": None}}})
    done = lumicontainer(verb, path, *(["--", "true"] if verb == "run" else []))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "the image has no record of lumicontainer" in done.stderr


@pytest.mark.parametrize("verb", ["inspect", "binds", "run", "reframe"])
def test_an_image_that_is_cut_short_is_refused_by_every_verb(verb: str, tmp_path: Path) -> None:
    path = image(tmp_path, "resolved.json", json.dumps(HELLO).encode())
    with path.open("r+b") as file:
        file.truncate(sif.partitions(path)[0].offset + 1000)
    done = lumicontainer(verb, path, *(["--", "true"] if verb == "run" else []))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "bug" not in done.stderr


def test_an_image_for_another_platform_is_started_with_a_warning(tmp_path: Path) -> None:
    path = image(tmp_path, "resolved.json", json.dumps(HELLO).encode())
    done = lumicontainer("binds", "--platform", "lumi-g", path)
    assert "warning: the image was built for platform 'site'" in done.stderr
    assert "--platform site" in done.stderr


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (pipe, "a pipe"),
        (listening, "a socket"),
        (unread, "a folder"),
        (device, "a device"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "IMAGE"),
        ("inspect", "--check", "IMAGE"),
        ("binds", "IMAGE"),
        ("run", "IMAGE", "--", "true"),
        ("verify", "IMAGE"),
        ("reframe", "IMAGE"),
        ("build", "pytorch", "--dry-run", "--output", "IMAGE"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_what_is_no_file_is_no_image_and_nobody_waits_for_it(
    make: Callable[[Path], None], kind: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "x.sif"
    make(path)
    command = [str(path) if word == "IMAGE" else word for word in words]
    program = [sys.executable, "-m", "lumicontainer", *command]
    done = subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, done.stderr
    assert kind in done.stderr


def test_a_pipe_that_nobody_reads_is_no_place_for_a_document(tmp_path: Path) -> None:
    path = image(tmp_path, "checks.json", json.dumps([CHECK]).encode())
    pipe(tmp_path / "fifo")
    for words in (
        ("reframe", "--output", tmp_path / "fifo", path),
        ("verify", path, "-k", "host/key", "--junit", tmp_path / "fifo"),
    ):
        program = [sys.executable, "-m", "lumicontainer", *map(str, words)]
        done = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 2, done.stderr
        assert "the pipe has no reader" in done.stderr


def test_a_pipe_that_somebody_reads_takes_a_document(tmp_path: Path) -> None:
    path = image(tmp_path, "checks.json", json.dumps([CHECK]).encode())
    pipe(tmp_path / "fifo")
    with subprocess.Popen(
        ["timeout", "60", "cat", tmp_path / "fifo"], stdout=subprocess.PIPE, text=True
    ) as reader:
        done = lumicontainer("verify", path, "-k", "host/key", "--junit", tmp_path / "fifo")
        assert done.returncode == 0, done.stderr
        assert 'classname="host" name="key"' in reader.communicate(timeout=60)[0]
