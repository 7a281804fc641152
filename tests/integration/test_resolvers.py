"""Uv and pip pin the same wheels for the shipped images."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model.source import PYTHON
from lumicontainer.core.resolve.inputs import inputs
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.host.uv import find_uv
from lumicontainer.pinning import uv
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.wheels import Query, Target

TARGET = Target("3.11", "2.36")


def requirements() -> dict[tuple[str, str], list[str]]:
    """Return the requirements of the flagship, by layer and the file that names them."""
    materials = open_catalog().materials("pytorch-deepspeed", "workstation")
    lines: dict[tuple[str, str], list[str]] = {}
    for each in inputs(resolve(materials)):
        if each.kind == PYTHON and not each.index_url:
            lines.setdefault((each.layer, each.where), []).append(each.name)
    return lines


REQUIREMENTS = requirements()


@pytest.mark.parametrize(("layer", "where"), REQUIREMENTS)
def test_uv_and_pip_pin_the_same_wheels_of_the_flagship(layer: str, where: str) -> None:
    program = find_uv()
    assert program is not None
    names = REQUIREMENTS[layer, where]
    by_uv = uv.wheels(program, TARGET, Query(names))
    by_pip = Pip(TARGET).wheels(Query(names))
    assert {each.line for each in by_uv} == {each.line for each in by_pip}
    assert by_uv


def test_uv_and_pip_honor_the_constraints_of_this_hosts_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    files[0].write_text("packaging<25\n")
    files[1].write_text("packaging!=24.2\n")
    monkeypatch.setenv("PIP_CONSTRAINT", " ".join(map(str, files)))
    program = find_uv()
    assert program is not None
    [by_uv] = uv.wheels(program, TARGET, Query(["packaging"]))
    [by_pip] = Pip(TARGET).wheels(Query(["packaging"]))
    assert by_uv.line == by_pip.line
    assert Version("24") <= Version(by_uv.version) < Version("24.2")
