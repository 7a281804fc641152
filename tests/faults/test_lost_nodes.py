"""Nodes of a real Slurm die, or lose its daemon, while a build and its compile jobs run on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.jobs.follow import COMMAND
from lumicontainer.jobs.variables import FILE

from ..integration.conftest import base_object, new_cache, proof, proof_recipes, recipes, small
from ..integration.processes import Env, jobs_of, processes_of, started, wait_for
from ..integration.test_build_jobs import ENDLESS, Gate, Login, ended, gate, login
from ..integration.test_verify_slurm import never_ending
from ..namespaces import as_root
from ..programs import run
from .nodes import Nodes, cluster_of

__all__ = [
    "base_object",
    "gate",
    "login",
    "new_cache",
    "proof",
    "proof_recipes",
    "recipes",
    "small",
]

NUMBER = "1"
"""The digit of a cluster that these tests have alone."""
NOT_LEFT = (COMMAND, ".*.sif*", "*.sif")
"""The environment of a job, and images."""


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Env]:
    with cluster_of(NUMBER) as env:
        yield env


@pytest.fixture
def cluster(own_cluster: Env) -> Env:
    """Return the environment of jobs on that cluster: the fixture ``login`` takes it."""
    return {**own_cluster, "APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"}


@pytest.fixture
def nodes(own_cluster: Env) -> Iterator[Nodes]:
    nodes = Nodes(Path(own_cluster["SLURM_CONF"]).parent)
    yield nodes
    nodes.start_missing()


def node_of(login: Login, number: str) -> str:
    words = ["squeue", "--noheader", "--format=%N", "--jobs", number]
    return run(words, env=login.env).stdout.strip()


def test_a_build_whose_node_dies_ends_and_leaves_no_image(login: Login, nodes: Nodes) -> None:
    login.write(one=ENDLESS)
    with login.begun(until="one: compile") as process:
        (number,) = login.running(1)
        node = node_of(login, number)
        nodes.crash(node)
        ended(process, 7, rf"error: job {number} failed\n", "why: NODE_FAIL", "hint: repeat the")
    nodes.start(node)
    assert [path for form in NOT_LEFT for path in login.folder.rglob(form)] == []


def test_a_build_on_a_node_that_slurm_has_lost_writes_no_image(
    login: Login, nodes: Nodes, gate: Gate
) -> None:
    login.write(one=gate.wait)
    with login.begun(until="one: compile") as process:
        (number,) = login.running(1)
        node = node_of(login, number)
        nodes.lose(node)
        ended(process, 7, rf"error: job {number} failed\n", "why: NODE_FAIL")
    gate.close()
    wait_for(lambda: processes_of(login.folder) == [])
    nodes.start(node)
    assert [path for form in NOT_LEFT for path in login.folder.rglob(form)] == []


@pytest.mark.parametrize("number", [1, 2], ids=["of the script", "of other ranks"])
def test_a_verification_whose_node_dies_names_the_node(
    number: int, proof: Path, cluster: Env, nodes: Nodes, tmp_path: Path
) -> None:
    env = {**cluster, "LUMICONTAINER_CACHE": str(tmp_path / "cache"), "MARK": str(tmp_path)}
    node = f"nid0050{NUMBER}{number}"
    with started(never_ending(proof, "proof/pictures"), cwd=tmp_path, env=env) as process:
        assert any("proof/pictures" in line for line in process.stderr)
        nodes.crash(node)
        ended(process, 7, "error: the job failed", f"why: NODE_FAIL of {node}")
    nodes.start(node)
    assert processes_of(tmp_path) == []
    assert jobs_of(env, tmp_path) == []
    (folder,) = (tmp_path / "cache/jobs").iterdir()
    assert not (folder / FILE).exists()


def test_a_compile_job_whose_node_dies_is_sent_again(
    login: Login, nodes: Nodes, gate: Gate
) -> None:
    login.write(one=gate.wait)
    # Each job has a node for itself, and the new one waits until the node is back.
    with login.begun("--jobs", 8, "--jobs-at-once", 1, until="one: compile") as process:
        _, number = login.running(2)
        node = node_of(login, number)
        nodes.crash(node)
        wait_for(lambda: int(number) < max(map(int, login.jobs())))
        nodes.start(node)
        gate.close()
        ended(process, 0)
    assert login.left() == {login.image.name}


def test_a_daemon_that_dies_and_returns_costs_no_job(
    login: Login, nodes: Nodes, gate: Gate
) -> None:
    login.write(one=gate.wait)
    with login.begun(until="one: compile") as process:
        (number,) = login.running(1)
        node = node_of(login, number)
        daemon = nodes.daemon(node)
        run([*as_root(), "kill", "-KILL", daemon])
        nodes.start(node)
        gate.close()
        ended(process, 0)
    assert login.left() == {login.image.name}


def test_a_controller_that_dies_and_returns_costs_no_job(
    login: Login, nodes: Nodes, gate: Gate
) -> None:
    login.write(one=gate.wait)
    with login.begun(until="one: compile") as process:
        login.running(1)
        nodes.lose_controller()
        # The build goes on, and ends, while nobody answers.
        gate.close()
        wait_for(login.image.exists)
        nodes.start_controller()
        ended(process, 0)
    assert login.left() == {login.image.name}
