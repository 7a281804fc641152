"""An error of a build names its cause outside of the build."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.cache.store import Cache
from lumicontainer.errors import HostError, Problem, SpaceError, StepError
from lumicontainer.host.docker import daemon
from lumicontainer.sandbox.failures.causes import naming_causes
from lumicontainer.sandbox.workspace import workspace

pytestmark = pytest.mark.slow

LOG = "making two\nerror: the Docker daemon does not answer\n  where: unix:///x\n"
FAILED = StepError(Problem("the step 'two' failed (exit code 3)", why=LOG))


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/x.sock")
    with workspace("hello") as place:
        runtime, cache = SimpleNamespace(name="docker"), Cache(tmp_path / "cache").open()
        yield SimpleNamespace(place=place, runtime=runtime, cache=cache, proven={})


def fail(builder: Any) -> None:
    with naming_causes(builder):
        raise FAILED


def test_a_daemon_that_ended_is_named_in_place_of_the_step_that_it_broke(builder: Any) -> None:
    with pytest.raises(HostError) as raised:
        fail(builder)
    (problem,) = raised.value.problems
    assert problem.what == "the Docker daemon ended while the build used it"
    assert problem.where == "unix:///run/x.sock"


def test_a_daemon_whose_disk_is_full_is_named_in_place_of_the_step(builder: Any) -> None:
    log = f"loading it\nerror: {daemon.IS_FULL}\n  where: unix:///x\n"
    with pytest.raises(SpaceError, match="docker system prune"), naming_causes(builder):
        raise StepError(Problem("the step 'docker' failed (exit code 8)", why=log))


def test_a_step_that_prints_the_same_without_docker_has_failed_itself(builder: Any) -> None:
    builder.runtime.name = "namespaces"
    with pytest.raises(StepError):
        fail(builder)


def test_a_missing_folder_of_the_cache_is_named(builder: Any) -> None:
    (builder.cache.root / "objects").rmdir()
    with pytest.raises(HostError, match="the cache was removed while a build used it"):
        fail(builder)


def test_a_folder_without_its_lock_is_another_builds(builder: Any) -> None:
    (builder.place.root / "lock").unlink()
    (builder.place.root / "lock").touch()
    with pytest.raises(HostError, match="the folder of the build was removed while it ran"):
        fail(builder)
