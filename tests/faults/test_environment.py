"""An image started with other variables than its recipe promises, or without mount points."""

import json
from pathlib import Path

import pytest

from .breaking import HOME, Broken, caught, holds

CHECK = "image/environment"
SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

FAULTS = [
    ("DS_ACCELERATOR", "cuda", "is 'cuda'; the layer deepspeed promises 'cpu'"),
    ("LANG", "fi_FI.UTF-8", "is 'fi_FI.UTF-8'; the layer debian promises 'C.UTF-8'"),
    ("PATH", SYSTEM, "PATH has no /opt/venv/bin, which the layer python promises"),
    ("PATH", f"{SYSTEM}:/opt/venv/bin", "/opt/venv/bin of the layer python stands behind"),
    ("PYTHONHOME", "/usr", "PYTHONHOME is set"),
]


@pytest.mark.parametrize(("name", "value", "words"), FAULTS)
def test_a_variable_that_is_not_as_the_recipe_promises_is_reported(
    image: Path, broken: Broken, name: str, value: str, words: str
) -> None:
    """The check runs with the image's own interpreter, whatever PATH says."""
    program = f"/{HOME}/bin/lumi-verify"
    caught(broken.env(name, value).verify(image, CHECK, program=program), name, words)


def test_a_container_as_it_is_started_holds(image: Path, broken: Broken) -> None:
    holds(broken.verify(image, CHECK))


def test_a_mount_point_that_is_missing_is_named(image: Path, broken: Broken) -> None:
    with broken.record(image) as record:
        record["binds"] = [{"path": "/var/spool/slurmd", "reason": "Slurm's files of the node"}]
    row = broken.verify(image, CHECK)
    caught(row, "there is no /var/spool/slurmd in the image, which the platform binds")


def test_a_platform_with_blanks_in_values_and_conditions_that_do_not_hold_is_right(
    image: Path, broken: Broken
) -> None:
    row = {"reason": "a", "source": "b"}
    blanks = {**row, "name": "SITE_OPTIONS", "value": "-x  y=z"}
    later = {**row, "name": "SITE_LATER", "value": "1", "when": {"rocm": ">=7.0"}}
    table = {"name": "site", "accelerator": "cpu", "variables": [blanks, later]}
    holds(broken.write(f"/{HOME}/platform.json", json.dumps(table)).verify(image, CHECK))


def test_a_variable_of_the_platform_that_is_not_set_is_named(image: Path, broken: Broken) -> None:
    row = {"name": "FI_CXI_ATS", "value": "0", "reason": "a", "source": "b"}
    # Another one decides first, so that the promised value is not what ranks get.
    other = {**row, "value": "1", "when": {}}
    table = {"name": "lumi-g", "accelerator": "rocm", "variables": [other, row]}
    broken.write(f"/{HOME}/platform.json", json.dumps(table))
    caught(broken.verify(image, CHECK), "FI_CXI_ATS", "the platform promises '0'")
