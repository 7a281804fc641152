"""A layer says what its build takes: disk space, and memory for each compile job."""

import os
import subprocess
from pathlib import Path

import pytest

from lumicontainer.building.disk_space import sizes
from lumicontainer.cache.store import Cache
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.sandbox.builder import Builder

from ...conftest import Write
from ..cache.test_store import put

GIB = 1 << 30


def plan(write: Write, memory: str = "9G") -> Plan:
    """Plan a recipe with one layer whose compile jobs take some memory."""
    expects = f"expects: {{size: 4G, memory_per_job: {memory}}}"
    files = {
        "small.yaml": "summary: small\nbase: debian\nlayers: [python, tool]\n",
        "layers/tool/layer.yaml": f"summary: a tool\n{expects}\n",
        "layers/tool/install.sh": "true\n",
    }
    return planned(resolve(open_catalog(write(files)).materials("small", "workstation")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "setting", "jobs"),
    [("1M", "", len(os.sched_getaffinity(0))), ("900T", "", 1), ("900T", "7", 7)],
    ids=["as many as cores", "one where memory is short", "as many as asked for"],
)
def test_a_plain_build_chooses_its_jobs(write: Write, memory: str, setting: str, jobs: int) -> None:
    (text,) = next(step for step in plan(write, memory).steps if step.name == "tool").documents
    program = text.partition("# layer:")[0] + 'echo "$LUMICONTAINER_JOBS"\n'
    env = {"PATH": os.environ["PATH"], "LUMICONTAINER_JOBS": setting}
    done = subprocess.run(["bash", "-euc", program], env=env, capture_output=True, check=True)
    assert int(done.stdout) == jobs


def test_only_the_document_of_the_layer_chooses_its_jobs(write: Write) -> None:
    for step in plan(write).steps:
        assert ("MemAvailable" in step.documents[0]) == (step.name == "tool")
        assert step.name == "lumicontainer" or "MemAvailable" not in step.program


def test_a_build_starts_as_many_jobs_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lumicontainer.sandbox.builder.free_memory", lambda: 20 * GIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(256)))
    build = object.__new__(Builder)
    object.__setattr__(build, "jobs", None)
    assert [build.jobs_of(size * GIB) for size in (2, 9, 64)] == [10, 2, 1]


def test_a_layer_that_is_not_built_takes_what_it_expects(write: Write, tmp_path: Path) -> None:
    space = sizes(plan(write), Cache(tmp_path / "cache").open())
    assert max(space.expected) == GIB, "packed it has a quarter of the size"
    assert space.temporary(unpacks=False, unpacked=False) > 8 * GIB, (
        "its tree, and its step beside it"
    )


def test_a_layer_that_was_built_takes_what_it_took_last(write: Write, tmp_path: Path) -> None:
    planned, cache = plan(write), Cache(tmp_path / "cache").open()
    for base in ("one", "another"):
        put(cache, "tool", parent=base, used=1, content=base.encode())
    first, second = cache.entries()
    for last, moment in ((first, 2), (second, 3)):
        os.utime(last.folder, (moment, moment))
        assert sizes(planned, cache).known == (last.size,)
