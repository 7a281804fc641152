"""Ranks of every launcher that is listed have their numbers, and one place to meet.

Launchers that this host has start two ranks. Open MPI and HPE's PALS are not here: their variables
were recorded.
"""

import json
from pathlib import Path

import pytest

from lumicontainer.inside.launch.launchers import KINDS
from lumicontainer.inside.rank.context import NODE_LAUNCHERS

from ..integration.conftest import LIMIT, check_output, inside, srun
from ..unit.inside import seen
from ..unit.inside.conftest import lay_out
from ..unit.inside.deciding import decide

SHOW = ("--print-env", "--json")
TITLES = {"torchrun": "torchrun", "accelerate": "torchrun", "deepspeed": "deepspeed"}
"""How ranks name the launchers that lumi-entry starts: accelerate's are torchrun's."""


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """Lay out lumi-entry without an image."""
    return lay_out(tmp_path)


@pytest.fixture
def by_srun(cluster: dict[str, str], entry: Path) -> str:
    return str(srun(cluster, entry, *SHOW, nodes=1, tasks=2).stdout)


@pytest.fixture
def by_mpiexec(clients: Path, entry: Path) -> str:
    return check_output(clients / "mpiexec", "-n", 2, entry, *SHOW)


@pytest.fixture
def by_open_mpi() -> str:
    ranks = ({**seen.OPEN_MPI, f"{OPEN_MPI}_RANK": n, f"{OPEN_MPI}_SIZE": "2"} for n in "01")
    numbered = ({**env, f"{OPEN_MPI}_LOCAL_RANK": env[f"{OPEN_MPI}_RANK"]} for env in ranks)
    return "".join(decide(env).as_json() for env in numbered)


@pytest.fixture
def by_pals() -> str:
    ranks = ({**seen.PALS, "PMI_RANK": n, "PMI_LOCAL_RANK": n, "PMI_SIZE": "2"} for n in "01")
    return "".join(decide(env).as_json() for env in ranks)


OPEN_MPI = "OMPI_COMM_WORLD"
FIXTURES = {
    "srun": "by_srun",
    "mpiexec of MPICH": "by_mpiexec",
    "mpirun of Open MPI": "by_open_mpi",
    "a process manager with PMI": "by_pals",
}


def require_two_ranks(lines: str, title: str) -> None:
    """Require that a launcher of this title made two ranks of one node."""
    records = [json.loads(line) for line in lines.splitlines()]
    ranks = [{row["name"]: row["value"] for row in each["variables"]} for each in records]
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    numbers = sorted(tuple(each[name] for name in names) for each in ranks)
    assert numbers == [("0", "0", "2", "2"), ("1", "1", "2", "2")]
    assert len({(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in ranks}) == 1
    assert [each["title"].partition(",")[0] for each in records] == [title] * 2


def test_each_launcher_that_is_listed_is_proven_here() -> None:
    listed = {kind.title.partition(",")[0] for kind in KINDS}
    assert listed == {*FIXTURES, *TITLES.values()}
    assert tuple(TITLES) == NODE_LAUNCHERS


@pytest.mark.parametrize("title", FIXTURES)
def test_a_launcher_numbers_the_ranks_that_it_starts(
    request: pytest.FixtureRequest, title: str
) -> None:
    require_two_ranks(request.getfixturevalue(FIXTURES[title]), title)


@pytest.mark.parametrize("launcher", NODE_LAUNCHERS)
def test_a_launcher_that_lumi_entry_starts_numbers_the_ranks(
    files: Path, tmp_path: Path, launcher: str
) -> None:
    # DeepSpeed's gives a command another option, and writes lines between the ranks' lines.
    options = ("--launcher-args", "--no_local_rank") if launcher == "deepspeed" else ()
    start = ("timeout", LIMIT, "lumi-entry", "--launcher", launcher, "--nproc", 2, *options)
    script = f'lumi-entry {" ".join(SHOW)} >"$0/$RANK"'
    inside(files, *start, "--", "sh", "-c", script, tmp_path, options=("--bind", tmp_path))
    lines = "".join((tmp_path / rank).read_text() for rank in "01")
    require_two_ranks(lines, TITLES[launcher])
