"""Where the ranks meet: MASTER_ADDR and MASTER_PORT, the same on every rank without a word."""

from __future__ import annotations

from ..environment import DEFAULT, Setting, number
from ..errors import LaunchError
from .hostlist import HostlistError, first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .launchers import Launch

FIRST_PORT = 10000
PORTS = 9973
"""A prime, so the ports end at 19972: above those of Slurm's daemons (6817 to 6819),
below torchrun's 29400, PyTorch's 29500 and what the kernel gives away (32768 and up)."""
STEP_STRIDE = 6163
"""About PORTS divided by the golden ratio: it keeps the steps of one job far from each other and
from those of the jobs with a near id."""
NO_STEP = -1
DEFAULT_PORT = 29500
"""PyTorch's own default."""
LOOPBACK = "127.0.0.1"


def address(env: Mapping[str, str], launch: Launch) -> Setting:
    """Decide MASTER_ADDR: a name or address of the node that runs rank 0."""
    if launch.fact("WORLD_SIZE") == 1:
        return Setting("MASTER_ADDR", LOOPBACK, origin=DEFAULT, why="the only rank meets itself")
    for name in launch.nodelists:
        if env.get(name):
            host = _first_host(env[name], name)
            why = f"the first host of {name}={env[name]}"
            return Setting("MASTER_ADDR", host, origin=launch.name, why=why)
    if launch.on_one_node():
        return Setting("MASTER_ADDR", LOOPBACK, origin=DEFAULT, why="all ranks are on this node")
    raise LaunchError(
        "MASTER_ADDR is not set, and nothing tells where rank 0 runs",
        where=f"launched by {launch.title}",
        why="the ranks may be on several nodes, and no list of them begins with that of rank 0",
        hint="export MASTER_ADDR as a name or address of the first node, the same for every rank",
    )


def port(env: Mapping[str, str], launch: Launch) -> Setting:
    """Decide MASTER_PORT: equal on all ranks of a run, another one for its neighbours."""
    if launch.fact("WORLD_SIZE") == 1:
        value, origin, why = _free_port(), DEFAULT, "a port that is free on this node"
    elif launch.ids:
        ids = [number(env, name) for name in launch.ids]
        value, origin, why = port_of(*ids), launch.name, f"from {' and '.join(launch.ids)}"
    else:
        why = "PyTorch's default: nothing tells this run from another one on the node"
        value, origin = DEFAULT_PORT, DEFAULT
    return Setting("MASTER_PORT", str(value), origin=origin, why=why)


def port_of(job: int, step: int = NO_STEP) -> int:
    """Return the port of a job's step; 9,973 jobs with ids in a row get as many ports."""
    return FIRST_PORT + (job + step * STEP_STRIDE) % PORTS


def _first_host(text: str, name: str) -> str:
    try:
        host = first(text)
    except HostlistError as error:
        reason = str(error)
    else:
        if host:
            return host
        reason = "it names no host"
    raise LaunchError(
        f"{name} is no list of hosts",
        where=f"{name}={text[:200]}",
        why=reason,
        hint=f"leave {name} as Slurm sets it, or export MASTER_ADDR",
    )


def _free_port() -> int:
    import _socket  # noqa: PLC0415 - `socket` takes 7 ms more, half of lumi-entry's own time

    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
    finally:
        probe.close()
