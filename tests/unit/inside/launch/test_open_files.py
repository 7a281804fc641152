"""Each rank may open as many files as the system permits, and too few are said."""

import resource
from pathlib import Path

import pytest

from lumicontainer.inside.launch import open_files

from .. import seen
from ..conftest import run

FEW = 'ulimit -Sn 200; ulimit -Hn {}; exec "$@"'


@pytest.mark.slow
def test_the_soft_limit_of_a_rank_is_its_hard_one(launcher: Path) -> None:
    done = run("bash", "-c", FEW.format(300), "bash", launcher, "--", "bash", "-c", "ulimit -Sn")
    assert done.stdout == "300\n", done.stderr


@pytest.mark.parametrize(
    ("hard", "ranks", "warned"),
    [(1024, 768, False), (1024, 769, True), (resource.RLIM_INFINITY, 10**6, False)],
)
def test_too_few_files_for_all_ranks_are_said(
    monkeypatch: pytest.MonkeyPatch, hard: int, ranks: int, warned: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    assert bool(open_files.warning(ranks)) is warned


@pytest.mark.slow
def test_rank_0_of_many_ranks_warns(launcher: Path) -> None:
    step = {**seen.srun(0), **seen.step(0, "nid[005001-005100]", 800, "8(x100)", 100)}
    done = run("bash", "-c", FEW.format(1024), "bash", launcher, "--", "true", env=step)
    assert "a process may open 1024 files here" in done.stderr
    assert done.stderr.count("warning: ") == 1
