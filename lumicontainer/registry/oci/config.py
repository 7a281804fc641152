"""Say how a container of an image starts, as OCI images and Docker have it."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from lumicontainer.constants import EPOCH, HOME
from lumicontainer.core.plan.variables import recorded_variables
from lumicontainer.image import records
from lumicontainer.image.inspect import CHECKED_LABEL

ENTRY_POINT = (f"{HOME}/bin/lumi-entry",)


class ContainerConfig(NamedTuple):
    """Hold the labels of an image, and the variables and the entry point of its containers."""

    labels: Mapping[str, str]
    variables: Mapping[str, str]
    entry_point: Sequence[str] = ENTRY_POINT


def recorded_config(image: Path) -> ContainerConfig:
    """Return what a container of an image file gets; raise ``InputError`` if it has no record."""
    variables = recorded_variables(records.resolved(image)["layers"].values())
    labels = {name: str(value) for name, value in records.labels(image).items()}
    checked = "yes" if records.checked(image) else "no"
    return ContainerConfig({CHECKED_LABEL: checked, **labels}, variables)


def write_config(config: ContainerConfig, archives: Sequence[str]) -> bytes:
    """Return the configuration of an OCI image; ``archives`` are the digests of its tar files."""
    container = {
        "Env": [f"{name}={value}" for name, value in config.variables.items()],
        "Entrypoint": [*config.entry_point],
        "Labels": dict(config.labels),
    }
    content = {
        "created": datetime.fromtimestamp(EPOCH, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "architecture": "amd64",
        "os": "linux",
        "config": container,
        "rootfs": {"type": "layers", "diff_ids": [*archives]},
    }
    return json.dumps(content, sort_keys=True).encode()
