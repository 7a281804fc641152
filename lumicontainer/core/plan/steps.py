"""Hold the steps of a build: each has a shell program, and a key that names its content.

A key hashes the key of the step before, the inputs and the program. It covers nothing that leaves
the content unchanged: summaries, checks, host, time, job count.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.constants import EPOCH, STAGE, WHEELS
from lumicontainer.core import shell
from lumicontainer.core.model import Bootstrap, LayerFile
from lumicontainer.core.plan.base import CLEAN
from lumicontainer.core.resolve.decisions import Resolved

BASE = "base"
"""The name of what stands below the first step."""
MEMORY_PER_JOB = 2 << 30
"""Bytes: a compiler with PyTorch's headers takes 1.6 GB (measured)."""
STEP_ENVIRONMENT = f"""\
export HOME={STAGE}/home TMPDIR={STAGE}/tmp DEBIAN_FRONTEND=noninteractive
export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export SOURCE_DATE_EPOCH={EPOCH}
"""
"""The variables of every step, as shell text."""


class Compile(NamedTuple):
    """Hold the keyed program that compiles a layer's wheels on the tree whose key is ``parent``."""

    name: str
    key: str
    program: str
    inputs: Mapping[str, Any]
    parent: str
    secrets: tuple[str, ...] = ()
    memory_per_job: int = MEMORY_PER_JOB
    packages: str = ""
    """The part of ``program`` that root alone can run: it installs Debian packages, if any."""


class Step(NamedTuple):
    """Hold one keyed step of a build; ``program`` is complete and runs under bash.

    It expects the wheels of ``compiled`` in the folder that LUMICONTAINER_WHEELS names. A plain
    build runs ``documents`` in its stead, one after the other, which compile too.
    """

    name: str
    key: str
    program: str
    inputs: Mapping[str, Any]
    documents: tuple[str, ...]
    compiled: Compile | None = None
    secrets: tuple[str, ...] = ()
    """The ids of the files that it finds in the folder that LUMICONTAINER_SECRETS names."""
    memory_per_job: int = MEMORY_PER_JOB
    files: tuple[LayerFile, ...] = ()
    """Files for the host to write below / before ``program`` runs; ``documents`` do it by shell."""


class Plan(NamedTuple):
    """Hold what is to be done, in order, and what is constant in the image afterwards."""

    resolved: Resolved
    bootstrap: Bootstrap
    base_key: str
    base_inputs: Mapping[str, Any]
    steps: tuple[Step, ...]
    environment: Mapping[str, str]
    path: tuple[str, ...]
    lists: frozenset[str] = frozenset()
    """The variables of ``environment`` that list folders, before those that were there."""

    @property
    def keys(self) -> list[str]:
        """Return the keys of the layers from the base up."""
        return [self.base_key, *(step.key for step in self.steps)]


def make_step(
    name: str, program: str, inputs: Mapping[str, Any], secrets: tuple[str, ...] = ()
) -> Step:
    """Return a step with its key."""
    complete = with_program(inputs, program)
    return Step(name, key_of(complete), program, complete, (program,), secrets=secrets)


def key_of(inputs: Mapping[str, Any]) -> str:
    """Return the key of inputs."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def with_program(inputs: Mapping[str, Any], program: str) -> dict[str, Any]:
    """Add the digest of a program to inputs."""
    return {**inputs, "program": hashlib.sha256(program.encode()).hexdigest()}


def digests(files: Iterable[LayerFile]) -> dict[str, list[str]]:
    """Return the mode and the digest of each file."""
    return {
        file.name: [f"{file.mode:o}", hashlib.sha256(file.content).hexdigest()] for file in files
    }


def program_of(name: str, staged: Sequence[LayerFile], *, work: str) -> str:
    """Return a complete program; the file ``values.sh`` is among what it stages."""
    return (
        f"# layer: {name}\n(\nset -euo pipefail\numask 022\n"
        f"rm -rf {STAGE}\nmkdir -p {STAGE}/home {STAGE}/tmp\n"
        f"{shell.write_files(STAGE, staged)}"
        f"{STEP_ENVIRONMENT}"
        'export jobs="${LUMICONTAINER_JOBS:-$(nproc)}"\n'
        f'export wheels="${{LUMICONTAINER_WHEELS:-{WHEELS}}}"\n'
        'export secrets="${LUMICONTAINER_SECRETS:-/run/secrets}"\n'
        f". {STAGE}/values.sh\n{work}"
        f"cd /\nrm -rf {STAGE}\n{CLEAN})\n"
    )
