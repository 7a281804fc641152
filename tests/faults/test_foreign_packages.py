"""Names and versions in an image's packages are text of others: each is one, or is left out."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.model.requirements import marker_values
from lumicontainer.errors import InputError
from lumicontainer.extending import facts
from lumicontainer.host.uv import write_stand_in
from lumicontainer.image.records import RecordError
from lumicontainer.pinning.pip import needed
from lumicontainer.pinning.wheels import Wheel

from ..unit.cpu import within

SECONDS = 30.0
"""More than 10 times what 50,000 requirements take."""

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
    "9" * 5000,
]
HOSTILE = [*((name, "1.0") for name in NAMES), *(("torch", version) for version in VERSIONS)]


def answer_of(packages: Mapping[str, Any], python: str = "3.11") -> bytes:
    """Return what an image prints about its packages."""
    site = {"folder": "/opt/site", "place": "/opt/site"}
    answer = {"python": python, "libraries": [], "packages": packages, "site": site}
    return json.dumps({**answer, "extensible": True}).encode()


@pytest.mark.parametrize(("name", "version"), HOSTILE, ids=(f"{each!a:.60}" for each in HOSTILE))
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
    image = facts._parse(answer_of(packages))
    assert {name: each.version for name, each in image.packages.items()} == {
        "plain-name": "1.0.post1"
    }
    said = capsys.readouterr().err
    assert said.count("warning: invalid name or version of a Python package") == 2
    assert r"'torch' '1\nnumpy==0'" in said


@pytest.mark.parametrize("python", ["", "3", "x", "3.x", "3.11.4", "3.11/../..", "3.11\n", "3²"])
def test_a_version_of_python_is_one(python: str) -> None:
    with pytest.raises(RecordError, match="a version such as"):
        facts._parse(answer_of({}, python))


@pytest.mark.parametrize(
    "marker", ["os_name ~= 'x'", "'x' in extras", "python_full_version ~= 'x'"]
)
def test_a_condition_without_meaning_is_not_met(marker: str) -> None:
    row = {"version": "1.0", "requires": [f"torch; {marker}"], "modules": [], "protected": ""}
    packages = {"torch": {**row, "requires": []}, "evil": row}
    assert facts._parse(answer_of(packages)).needs("evil") == {}


def test_the_needs_of_an_image_are_read_in_linear_time() -> None:
    row = {"version": "1.0", "modules": [], "protected": ""}
    many = [f"torch>={number}" for number in range(facts._MOST_REQUIREMENTS - 100)]
    packages = {f"p{n}": {**row, "requires": [f"torch>={n}"]} for n in range(99)}
    packages |= {"torch": {**row, "requires": []}, "evil": {**row, "requires": many}}
    with within(SECONDS):
        image = facts._parse(answer_of(packages))
        for _ in range(20):
            assert "evil" in image.users("torch")


def test_an_image_that_states_too_many_requirements_is_refused() -> None:
    row = {"version": "1.0", "modules": [], "protected": "", "requires": ["torch"] * 60_000}
    with pytest.raises(RecordError, match="its packages state 60000 requirements"):
        facts._parse(answer_of({"evil": row}))


def test_a_version_of_more_digits_than_python_reads_is_not_met() -> None:
    row = {"version": "1.0", "requires": ["torch==" + "9" * 5000], "modules": [], "protected": ""}
    packages = {"torch": {**row, "requires": []}, "evil": row}
    assert facts._parse(answer_of(packages)).needs("evil") == {}


def test_a_condition_without_meaning_is_left_to_pip() -> None:
    wheels = {"evil": Wheel("evil", "1.0", "", "", ("torch; os_name ~= 'x'",))}
    assert needed(["evil"], wheels, marker_values("3.11")).keys() == {"evil", "torch"}
