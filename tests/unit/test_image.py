"""An image tells what of its host its layers need, to whoever starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from lumicontainer import image as images

from ..conftest import ROOT
from .test_sif import image

RECORD = {"binds": [{"path": "/opt/cray", "why": "x"}, {"path": "/run/cxi", "why": "y"}]}


def made(folder: Path, record: str | None) -> Path:
    """Make an image that holds a record, and no check."""
    tree, packed = folder / "tree", folder / "tree.squashfs"
    (tree / "opt/lumicontainer").mkdir(parents=True)
    (tree / "opt/lumicontainer/checks.json").write_text("[]")
    if record is not None:
        (tree / "opt/lumicontainer/resolved.json").write_text(record)
    subprocess.run(["mksquashfs", tree, packed, "-quiet", "-no-progress"], check=True)
    return image(folder / "x.sif", payload=packed.read_bytes())


@pytest.mark.parametrize(
    ("record", "found"),
    [(json.dumps(RECORD), ["/opt/cray", "/run/cxi"]), ("{}", []), ("{", []), (None, [])],
)
def test_the_binds_of_an_image_are_those_of_its_record(
    tmp_path: Path, record: str | None, found: list[str]
) -> None:
    binds, libraries = images.wanted_of_host(made(tmp_path, record))
    assert [bind.path for bind in binds] == found
    assert libraries == ()


@pytest.mark.parametrize("binding", [True, False])
def test_run_binds_what_the_platform_and_the_layers_need_and_the_host_has(
    tmp_path: Path, binding: bool
) -> None:
    there, other = tmp_path / "there", tmp_path / "other"
    for folder in (there, other):
        folder.mkdir()
    wanted = [{"path": str(other)}, {"path": str(there)}, {"path": "/nowhere/at/all"}]
    path = made(tmp_path, json.dumps({"binds": wanted}))
    envs, tools = tmp_path / "own/envs", tmp_path / "tools"
    for folder in (envs, tools):
        folder.mkdir(parents=True)
    binds = f"binds: [{{path: {there}, why: x}}]\n" if binding else ""
    (envs / "site.yaml").write_text(f"summary: x\naccelerator: cpu\n{binds}")
    # An engine that tells how it was called: what is in the image is not the matter here.
    (tools / "apptainer").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tools / "apptainer").chmod(0o755)
    program = [sys.executable, "-m", "lumicontainer", "run", "--platform", "site"]
    done = subprocess.run(
        [*program, "--recipes", str(tmp_path / "own"), str(path), "--", "true"],
        env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.splitlines()
    found = [value for option, value in pairwise(words) if option == "--bind"]
    assert found == ([str(there), str(other)] if binding else [])
