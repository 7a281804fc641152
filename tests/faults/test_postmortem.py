"""Jobs of four ranks die over Gloo, each by another fault: its rank and its line are named.

The jobs run at once, in one container, and wait for each other most of the time.
"""

import json
from pathlib import Path

import pytest

from lumicontainer.api import Postmortem, postmortem
from lumicontainer.jobs.postmortem.verdict import CAUSE, NONE

from ..integration.conftest import inside

PROGRAM = Path(__file__).with_name("dying_program.py")
FAULTS = {
    "exception": (2, "exception"),
    "file": (3, "missing-file"),
    "import": (1, "no-module"),
    "files": (2, "open-files"),
    "memory": (3, "python-memory"),
    "allocator": (0, "host-allocator"),
    "cuda": (1, "cpu-build"),
    "shapes": (1, "exception"),
    "nan": (2, "not-a-number"),
    "kill": (2, "silent-death"),
    "term": (0, "silent-death"),
    "exit": (1, "silent-death"),
    "abort": (0, "silent-death"),
    "segfault": (3, "segmentation-fault"),
    "stop": (1, "silent-hang"),
    "loop": (1, "silent-hang"),
    "slow": (3, "came-late"),
    "barrier": (2, "late-at-barrier"),
    "shape": (1, "other-shape"),
    "order": (3, "other-collective"),
    "skip": (2, "skipped"),
    "detail": (1, "other-shape"),
    "fewer": (1, "other-collective"),
    "recv": (0, "never-came"),
    "space": (1, "no-space"),
    "readonly": (2, "read-only"),
    "limit": (3, "file-too-large"),
    "half": (2, "broken-checkpoint"),
    "address": (3, "no-connection"),
    "name": (1, "no-connection"),
    "port": (0, "port-in-use"),
    "absent": (2, "missing-clients"),
    "version": (2, 3, "import"),
    "weights": (2, 3, "other-model"),
    "device": (1, "device-assert"),
    "worker": (2, "worker-killed"),
    "item": (0, "exception"),
    "threads": (1, "no-memory-for-process"),
    "stale": (3, "stale-file"),
    "database": (2, "database-locked"),
    "program": (1, "program-failed"),
    "deadlock": (2, "silent-hang"),
    "thread": (1, "exception"),
    "early": (1, "silent-death"),
    "store": (0, "silent-death"),
    "stops": (2, 3, "silent-hang"),
    "same-rank": (3, "absent-in-store"),
}
"""The ranks that each fault is in, and the signature or rule that decides."""
HEALTHY = (
    *("well", "well-caught", "well-words", "well-warned", "well-memory", "well-slow"),
    *("well-many", "well-group", "well-retried", "well-save", "well-left", "well-again"),
)
MISSED = 1
"""Faults of which the rank or the cause may stay unknown, if the machine is too slow."""


def line_of(fault: str) -> str:
    lines = PROGRAM.read_text().splitlines()
    numbers = [number for number, text in enumerate(lines, 1) if text.endswith(f"# {fault}")]
    return f"{PROGRAM}:{numbers[0]}" if numbers else ""


@pytest.fixture(scope="module")
def dead(sif: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Postmortem]:
    """Run all jobs; return what is known of each."""
    folder = tmp_path_factory.mktemp("dying") / "jobs"
    binds = ("--bind", f"{folder.parent},{PROGRAM.parent}")
    command = ("python3", PROGRAM.with_name("dying.py"), PROGRAM, folder, *FAULTS, *HEALTHY)
    codes = json.loads(inside(sif, *command, options=binds))
    assert [name for name in HEALTHY if set(codes[name].values()) != {0}] == []
    assert [name for name in FAULTS if set(codes[name].values()) == {0}] == []
    return {name: postmortem(folder / name) for name in codes}


def test_the_rank_and_the_cause_are_named(dead: dict[str, Postmortem]) -> None:
    seen = {name: dead[name].verdict for name in FAULTS}
    named = {name: (*each.ranks, each.signature) for name, each in seen.items()}
    wrong = {name: each for name, each in named.items() if each != FAULTS[name]}
    assert len(wrong) <= MISSED, wrong
    assert {each.outcome for each in seen.values()} == {CAUSE}


def test_the_line_of_the_program_is_named(dead: dict[str, Postmortem]) -> None:
    lines = {name: line for name in FAULTS if (line := line_of(name))}
    assert len(lines) == 28
    wrong = [name for name, line in lines.items() if dead[name].verdict.place != line]
    assert len(wrong) <= MISSED, wrong


def test_nobody_is_blamed_for_a_job_that_ended_well(dead: dict[str, Postmortem]) -> None:
    blamed = {name: dead[name].verdict for name in HEALTHY if dead[name].verdict.outcome != NONE}
    assert blamed == {}
