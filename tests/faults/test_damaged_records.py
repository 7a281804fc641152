"""Records of an image that are damaged, foreign or hostile: read as they are meant, or refused.

Whatever an image holds, a command ends with an error in words, never with the image's own.
"""

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cli import main
from lumicontainer.image import records, sif
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.image.records import (
    CHECKS,
    METADATA,
    PACKAGES,
    PATH,
    RESOLVED,
    RecordError,
    parse,
)

from ..conftest import ROOT
from ..integration.conftest import lumicontainer
from ..programs import run
from ..unit.verify.test_inspect import HELLO, packed
from .test_recipe_folders import device, listening

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
"""Each replaces a value."""
TEXTS = (
    *(b"", b"null", b"NaN", b"\x00", b"\xff\xfe{}", b'{"recipe": "\\ud800"}'),
    *(b"[" * 60_000, b'{"a":' * 60_000, b"9" * 5_000),
)
"""Each replaces a whole record."""


def changed(value: Any) -> Iterator[Any]:
    """Yield a record with one change: a value of another type, or one that is gone."""
    yield from WRONG
    if not isinstance(value, dict | list):
        return
    for name, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        for other in changed(each):
            record = copy.copy(value)
            record[name] = other
            yield record
        record = copy.copy(value)
        del record[name]
        yield record


def mutations(name: str) -> Iterator[bytes]:
    """Yield every record with one change, each cut of its text, and one with each byte another."""
    yield from TEXTS
    yield from (json.dumps(value).encode() for value in changed(RECORDS[name][0]))
    text = json.dumps(RECORDS[name][0]).encode()
    for at in range(len(text)):
        yield text[:at]
        yield text[:at] + bytes([text[at] ^ 1 << at % 8]) + text[at + 1 :]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_as_it_is_written_is_read_as_it_is(name: str) -> None:
    value, schema = RECORDS[name]
    assert parse(json.dumps(value).encode(), schema) == value


@pytest.mark.parametrize("name", RECORDS)
def test_a_mutated_record_is_of_its_form_or_is_refused_in_words(name: str) -> None:
    schema = RECORDS[name][1]
    contents, refused = list(mutations(name)), 0
    for content in contents:
        try:
            value = parse(content, schema)
        except RecordError as error:
            assert 0 < len(str(error)) < 600, content
            refused += 1
        else:
            records.require_schema(schema, value, "")
            json.dumps(value, indent=2).encode("utf-8")
    assert refused > len(contents) // 4


@pytest.mark.parametrize("limit", [0, -1, 0.5, 1e300, 604801, 10**400, True])
def test_a_check_that_never_ends_or_never_begins_is_refused(limit: float) -> None:
    content = json.dumps([{**CHECK, "timeout_seconds": limit}]).encode()
    with pytest.raises(RecordError, match="timeout_seconds: expected seconds from 1 to 604800"):
        parse(content, CHECKS)


@pytest.mark.parametrize(
    "path", ["x", "", "/", "/a//b", "/a/../b", "/a/.", "/a/", "/a:/etc", "/a,/b:/etc", "/a\n"]
)
def test_an_extension_binds_paths_at_themselves_alone(path: str) -> None:
    assert parse(b'["/home/me/my code/..a"]', [PATH])
    with pytest.raises(RecordError, match="expected an absolute path"):
        parse(json.dumps([path]).encode(), [PATH])


def image(folder: Path, name: str, content: bytes) -> Path:
    """Write an image of which one record has this content, and the others are as they should be."""
    texts: dict[str, str | bytes] = {
        f"{HOME}/{each}": json.dumps(value) for each, (value, _) in RECORDS.items()
    }
    texts |= {f"{HOME}/recipe.yaml": "summary: x\n", f"{HOME}/{name}": content}
    return packed(folder, texts, content if name == "metadata" else RECORDS["metadata"][0])


HERE = ("--platform", "workstation")
VERBS = {
    "resolved.json": (["inspect"], ["inspect", "--json"], ["binds", *HERE], ["verify", "--list"]),
    "checks.json": (["verify", "--list"], ["reframe", *HERE]),
    "packages.json": (["inspect", "--packages"], ["inspect", "--packages", "--json"]),
    "metadata": (["inspect"], ["inspect", "--definition"], ["verify", "-k", "host/key"]),
}
"""The commands that read a record; none of these starts a container."""


@pytest.mark.parametrize("name", RECORDS)
def test_no_command_fails_over_a_mutated_record(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    some = random.Random(9).sample(list(mutations(name)), 8)
    for number, content in enumerate([*some, b'{"data":null}', b"[" * 60_000, b"{", b'["a", 1]']):
        path = image(tmp_path / str(number), name, content)
        for verb in VERBS[name]:
            code = main([*verb, str(path)])
            printed = capfd.readouterr()
            assert code in (0, 1, 2), (verb, content, printed.err)
            assert "bug" not in printed.err, (verb, content)
            if code == 2:
                assert printed.err.startswith("error: "), (verb, content)
                assert name == "metadata" or f"/opt/lumicontainer/{name}" in printed.err


@pytest.mark.parametrize("content", [b'{"data":null}', b"[" * 60_000, b"{}", b""])
def test_run_starts_no_image_whose_record_is_damaged(content: bytes, tmp_path: Path) -> None:
    done = lumicontainer("run", image(tmp_path, "resolved.json", content), "--", "true")
    assert done.returncode == 2, done.stderr
    assert "a record of the image is damaged" in done.stderr


VERB = {verb: [verb, "IMAGE"] for verb in ("inspect", "binds", "reframe", "verify")}
VERB["run"] = ["run", "IMAGE", "--", "true"]


def called(words: Sequence[object], path: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on an image; one that hangs ends with 124."""
    command = [sys.executable, "-m", "lumicontainer", *words]
    return run(
        ["timeout", "60", *(path if word == "IMAGE" else word for word in command)], cwd=ROOT
    )


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return image(tmp_path, "checks.json", json.dumps([CHECK]).encode())


@pytest.mark.parametrize("verb", ["inspect", "reframe", "verify"])
def test_an_image_from_elsewhere_is_refused_by_readers(verb: str, tmp_path: Path) -> None:
    path = packed(tmp_path, {"bin/sh": "x"}, {"data": {"attributes": {"labels": None}}})
    done = called(VERB[verb], path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "the image has no record of lumicontainer" in done.stderr


@pytest.mark.parametrize("verb", ["inspect", "binds", "run", "reframe"])
def test_an_image_that_is_cut_short_is_refused_by_every_verb(verb: str, whole: Path) -> None:
    with whole.open("r+b") as file:
        file.truncate(sif.partitions(whole)[0].offset + 1000)
    done = called(VERB[verb], whole)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "bug" not in done.stderr


def test_an_image_for_another_platform_is_started_with_a_warning(whole: Path) -> None:
    done = called(["binds", "--platform", "lumi-g", "IMAGE"], whole)
    assert "warning: the image was built for platform 'site'" in done.stderr
    assert "--platform site" in done.stderr


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a pipe"),
        (listening, "a socket"),
        (Path.mkdir, "a folder"),
        (device, "a device"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        *VERB.values(),
        ["inspect", "--check", "IMAGE"],
        ["build", "pytorch", "--dry-run", "--output", "IMAGE"],
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_what_is_no_file_is_no_image_and_nobody_waits_for_it(
    make: Callable[[Path], None], kind: str, words: list[str], tmp_path: Path
) -> None:
    make(tmp_path / "x.sif")
    done = called(words, tmp_path / "x.sif")
    assert done.returncode == 2, done.stderr
    assert kind in done.stderr


DOCUMENTS = pytest.mark.parametrize(
    "words",
    [["reframe", "IMAGE", "--output"], ["verify", "IMAGE", "-k", "host/key", "--junit"]],
    ids=lambda words: words[0],
)


@DOCUMENTS
def test_a_document_without_a_folder_is_named_with_its_whole_path(
    words: list[str], whole: Path
) -> None:
    done = called([*words, "missing/x"], whole)
    assert done.returncode == 2, done.stderr
    says = f"error: cannot write 'missing/x'\n  where: {ROOT}/missing/x\n"
    assert says in done.stderr
    assert "choose a file in an existing and writable folder" in done.stderr


@DOCUMENTS
def test_a_pipe_that_nobody_reads_is_no_place_for_a_document(words: list[str], whole: Path) -> None:
    fifo = whole.with_name("fifo")
    os.mkfifo(fifo)
    done = called([*words, fifo], whole)
    assert done.returncode == 2, done.stderr
    assert "the pipe has no reader" in done.stderr


def test_a_pipe_that_somebody_reads_takes_a_document(whole: Path) -> None:
    fifo = whole.with_name("fifo")
    os.mkfifo(fifo)
    with subprocess.Popen(["timeout", "60", "cat", fifo], stdout=-1, text=True) as reader:
        done = called(["verify", "IMAGE", "-k", "host/key", "--junit", fifo], whole)
        assert done.returncode == 0, done.stderr
        assert 'classname="host" name="key"' in reader.communicate(timeout=60)[0]
