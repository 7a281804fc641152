"""The state of the GPUs is shown once a node, and nothing waits for a tool that hangs."""

import time
from pathlib import Path

import pytest

from .. import seen
from ..conftest import PATH, Entry


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "rocm-smi"
    path.write_text("#!/bin/sh\necho 'GPU 0: 35 C'\nexit 3\n")
    path.chmod(0o755)
    return path


def path(tool: Path) -> dict[str, str]:
    return {"PATH": f"{tool.parent}:{PATH}"}


def test_local_rank_0_of_each_node_shows_its_gpus_on_stderr(entry: Entry, tool: Path) -> None:
    done = [
        entry("--smi", "--", "echo", "run", env={**seen.srun(rank), **path(tool)})
        for rank in range(4)
    ]
    assert [one.stdout for one in done] == ["run\n"] * 4
    assert [bool(one.stderr) for one in done] == [True, False, False, True]
    assert done[0].stderr.startswith("rocm-smi on ")
    assert done[0].stderr.endswith("exit code 3:\nGPU 0: 35 C\n")


def test_a_tool_that_is_not_there_is_one_warning_of_the_run(entry: Entry) -> None:
    done = [entry("--smi", "--", "true", env=seen.srun(rank)) for rank in range(4)]
    assert [one.returncode for one in done] == [0] * 4
    assert [one.stderr.count("\n") for one in done] == [1, 0, 0, 0]
    assert "neither rocm-smi nor amd-smi" in done[0].stderr


def test_a_tool_that_hangs_is_left_and_the_program_starts(
    entry: Entry, tool: Path, launcher: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool.write_text("#!/bin/sh\nsleep 1000\n")
    # The limit as it stands would make this test as long.
    from lumicontainer.inside.entry import smi  # noqa: PLC0415

    monkeypatch.setattr(smi, "SECONDS", 0.3)
    begun = time.monotonic()
    assert "did not end within 0.3 s" in smi._state([str(tool)])
    assert time.monotonic() - begun < 10
