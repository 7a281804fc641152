"""An image started with other variables than its recipe promises, or without mount points."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ..programs import run
from .breaking import HOME, Broken, caught, holds, read

CHECK = "image/environment"
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

FAULTS: dict[str, tuple[Callable[[Broken], Broken], str, str]] = {
    "a variable with another value": (
        lambda image: image.env("DS_ACCELERATOR", "cuda"),
        "DS_ACCELERATOR is 'cuda'",
        "the layer deepspeed promises 'cpu'",
    ),
    "a locale that is none of the image's": (
        lambda image: image.env("LANG", "fi_FI.UTF-8"),
        "LANG is 'fi_FI.UTF-8'",
        "the layer debian promises 'C.UTF-8'",
    ),
    "a path without the virtual environment": (
        lambda image: image.env("PATH", SYSTEM),
        "PATH has no /opt/venv/bin",
        "the layer python",
    ),
    "a path with the system's Python first": (
        lambda image: image.env("PATH", f"{SYSTEM}:/opt/venv/bin"),
        "/opt/venv/bin of the layer python stands behind the system's folders",
        "PATH",
    ),
    "the home of another Python": (
        lambda image: image.env("PYTHONHOME", "/usr"),
        "PYTHONHOME is set",
        "",
    ),
}


def started(broken: Broken, image: Path) -> dict:
    """Run the check with the image's own interpreter, whatever PATH says."""
    program = f"/{HOME}/bin/lumi-verify"
    done = run(broken.command(image, program, "-k", CHECK, "--json", "-"))
    assert done.returncode in (0, 1), done.stderr
    (row,) = json.loads(done.stdout)["checks"]
    return dict(row)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_container_that_is_not_as_the_recipe_promises_is_reported(
    image: Path, broken: Broken, fault: str
) -> None:
    change, *words = FAULTS[fault]
    caught(started(change(broken), image), *words)


def test_a_container_as_it_is_started_holds(image: Path, broken: Broken) -> None:
    holds(broken.verify(image, CHECK))


def test_a_mount_point_that_is_missing_is_named(image: Path, broken: Broken) -> None:
    record = json.loads(read(image, f"/{HOME}/resolved.json"))
    record["binds"] = [{"path": "/var/spool/slurmd", "reason": "Slurm's files of the node"}]
    row = broken.write(f"/{HOME}/resolved.json", json.dumps(record)).verify(image, CHECK)
    caught(row, "there is no /var/spool/slurmd in the image, which the platform binds")


def test_a_platform_with_blanks_in_values_and_conditions_that_do_not_hold_is_right(
    image: Path, broken: Broken
) -> None:
    row = {"reason": "a", "source": "b"}
    blanks = {**row, "name": "SITE_OPTIONS", "value": "-x  y=z"}
    later = {**row, "name": "SITE_LATER", "value": "1", "when": {"rocm": ">=7.0"}}
    table = {"name": "site", "accelerator": "cpu", "variables": [blanks, later]}
    holds(broken.write(f"/{HOME}/platform.json", json.dumps(table)).verify(image, CHECK))


def test_a_variable_of_the_platform_that_lumi_entry_does_not_set_is_named(
    image: Path, broken: Broken
) -> None:
    row = {"name": "FI_CXI_ATS", "value": "0", "reason": "a", "source": "b"}
    # Another one decides first, so that the promised value is not what ranks get.
    other = {**row, "value": "1", "when": {}}
    table = {"name": "lumi-g", "accelerator": "rocm", "variables": [other, row]}
    broken.write(f"/{HOME}/platform.json", json.dumps(table))
    caught(broken.verify(image, CHECK), "FI_CXI_ATS", "the platform promises '0'")
