"""Syft, which knows nothing of us, finds every package of the first image.

``make syft`` runs it: syft takes eight minutes for the file of such an image.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.model.wheel_names import normal

from ..integration.conftest import check_output, inside, lumicontainer
from ..integration.registries import registry

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "pytorch-deepspeed.sif"
SYFT = ROOT / "build/syft/bin/syft"
DISTRIBUTIONS = """
from importlib.metadata import distributions
for each in distributions():
    print(each.metadata["Name"], each.version)
"""
COMMANDS = {
    "deb": ("dpkg-query", "--show", "--showformat", "${Package} ${Version}\n"),
    "python": ("python3", "-c", DISTRIBUTIONS),
}
"""By the type that syft gives a package: the command that lists them in a container."""
Packages = set[tuple[str, str]]
Rows = list[dict[str, Any]]
SITE = "/opt/venv/lib/python3.11/site-packages"


def named(rows: Iterable[tuple[str, str]]) -> Packages:
    return {(normal(name), version) for name, version in rows}


@pytest.fixture(scope="module", params=["file", "oci"])
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Name the image as syft does: its file, or the OCI image that a push makes of it."""
    if request.param == "file":
        yield f"singularity:{IMAGE}"
        return
    with registry(tmp_path_factory.mktemp("registry")) as host:
        lumicontainer("push", IMAGE, f"oci://{host}/image:1", "--format", "oci", code=0)
        yield f"registry:{host}/image:1"


@pytest.fixture(scope="module")
def rows(source: str) -> Rows:
    """Return what syft says of each package in the image."""
    settings = {"SYFT_CHECK_FOR_APP_UPDATE": "false", "SYFT_REGISTRY_INSECURE_USE_HTTP": "true"}
    words = (SYFT, "scan", source, "--output", "json", "--quiet")
    artifacts: Rows = json.loads(check_output(*words, env={**os.environ, **settings}))["artifacts"]
    return artifacts


@pytest.fixture(scope="module")
def listed(rows: Rows) -> dict[str, Packages]:
    """Return the packages that syft finds in the image, by type."""
    return {
        kind: named((each["name"], each["version"]) for each in rows if each["type"] == kind)
        for kind in COMMANDS
    }


@pytest.mark.parametrize(("kind", "least"), [("deb", 100), ("python", 80)])
def test_syft_finds_each_package_with_its_version(
    kind: str, least: int, listed: dict[str, Packages]
) -> None:
    expected = named(line.split(" ") for line in inside(IMAGE, *COMMANDS[kind]).splitlines())
    print(f"{kind}: {len(expected)} in the image, {len(listed[kind])} found by syft")
    assert len(expected) >= least
    assert expected - listed[kind] == set()


def test_the_bill_has_the_package_urls_of_syft(rows: Rows) -> None:
    bill = json.loads(lumicontainer("sbom", IMAGE, code=0).stdout)
    own = {each["purl"] for each in bill["components"]}
    kinds = {"deb": "pkg:deb/", "python": "pkg:pypi/"}
    for kind, start in kinds.items():
        packages = {each["purl"]: each for each in rows if each["type"] == kind}
        assert {purl for purl in own if purl.startswith(start)} <= packages.keys()
        more = [packages[purl] for purl in packages.keys() - own]
        assert all(is_carried(each) for each in more), [each["purl"] for each in more]


def is_carried(row: dict[str, Any]) -> bool:
    """Return whether another package carries a copy, as setuptools does; Python imports none."""
    folders = {str(Path(each["path"]).parents[1]) for each in row["locations"]}
    return all(folder.startswith(f"{SITE}/") for folder in folders)
