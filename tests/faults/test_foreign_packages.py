"""Names and versions in an image's packages are text of others: each is one, or is left out."""

import json
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending import facts
from lumicontainer.host.uv import write_stand_in

NAMES = [
    "",
    "..",
    "a/../../../b",
    "/a",
    "a b",
    "a\nb",
    "a==1",
    "-r",
    "a;x",
    "a\0",
    "-",
    "a[x]",
    "ä",
]
VERSIONS = [
    "",
    "1/../../../b",
    "1\ntorch==0",
    "1 ; x",
    "1==2",
    "latest",
    "1\0",
    "../1",
    "1+/x",
    "*",
]
HOSTILE = [*((name, "1.0") for name in NAMES), *(("torch", version) for version in VERSIONS)]


@pytest.mark.parametrize(("name", "version"), HOSTILE, ids=map(ascii, HOSTILE))
def test_no_stand_in_is_written_for_a_hostile_package(
    name: str, version: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a/b/c"
    folder.mkdir(parents=True)
    with pytest.raises(InputError, match="invalid name or version of a Python package"):
        write_stand_in(folder, name, version)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_hostile_package_is_left_out_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"requires": [], "modules": [], "protected": ""}
    packages = {
        "Plain_Name": {**row, "version": "1.0-1"},
        "a/../../b": {**row, "version": "1"},
        "torch": {**row, "version": "1\nnumpy==0"},
    }
    answer = json.dumps({"python": "3.11", "libraries": [], "packages": packages})
    found = facts._parse(answer.encode())
    assert {name: each.version for name, each in found.packages.items()} == {
        "plain-name": "1.0.post1"
    }
    said = capsys.readouterr().err
    assert said.count("warning: invalid name or version of a Python package") == 2
    assert r"'torch' '1\nnumpy==0'" in said
