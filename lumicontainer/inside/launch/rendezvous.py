"""MASTER_ADDR and MASTER_PORT: every rank computes the same values without communication."""

import socket
from collections.abc import Mapping

from ..environment import DEFAULT, Setting, number
from ..errors import LaunchError
from .hostlist import HostlistError, expand
from .launchers import Launch

FIRST_PORT = 10000
# A prime. The ports end at 19972: above those of Slurm's daemons (6817 to 6819), below torchrun's
# 29400, PyTorch's 29500 and the kernel's ephemeral ports (32768 and up).
PORTS = 9973
# About PORTS divided by the golden ratio: the steps of a job get ports far from each other and from
# those of jobs with a near id.
STEP_STRIDE = 6163
DEFAULT_PORT = 29500  # PyTorch's own default
LOOPBACK = "127.0.0.1"


def address(env: Mapping[str, str], launch: Launch) -> Setting:
    """Decide MASTER_ADDR: a name or address of the node of rank 0."""
    if launch.fact("WORLD_SIZE") == 1:
        return Setting("MASTER_ADDR", LOOPBACK, DEFAULT, "this is the only rank")
    for name in launch.nodelists:
        if env.get(name):
            host = _first_host(env[name], name)
            why = f"the first host of {name}={env[name]}"
            return Setting("MASTER_ADDR", host, launch.name, why)
    if launch.on_one_node():
        return Setting("MASTER_ADDR", LOOPBACK, DEFAULT, "all ranks are on this node")
    what = "MASTER_ADDR is not set, and the node of rank 0 is unknown"
    why = "the ranks may be on several nodes, and no list begins with the node of rank 0"
    hint = "export MASTER_ADDR as a name or address of the first node, the same for every rank"
    raise LaunchError(what, f"launched by {launch.title}", why, hint)


def port(env: Mapping[str, str], launch: Launch) -> Setting:
    """Decide MASTER_PORT: equal on all ranks of a run, different for other runs on the node."""
    if launch.fact("WORLD_SIZE") == 1:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            value, origin = int(probe.getsockname()[1]), DEFAULT
        why = "a port that is free on this node"
    elif launch.ids:
        ids = [number(env, name) for name in launch.ids]
        value, origin, why = port_of(*ids), launch.name, f"from {' and '.join(launch.ids)}"
    else:
        value, origin = DEFAULT_PORT, DEFAULT
        why = "PyTorch's default: the launcher sets no id of the run"
    return Setting("MASTER_PORT", str(value), origin, why)


def port_of(job: int, step: int = -1) -> int:
    """Return the port of a job's step; 9,973 consecutive jobs get different ports."""
    return FIRST_PORT + (job + step * STEP_STRIDE) % PORTS


def _first_host(text: str, name: str) -> str:
    try:
        hosts = expand(text)
    except HostlistError as error:
        reason = str(error)
    else:
        if hosts:
            return hosts[0]
        reason = "it names no host"
    hint = f"leave {name} as Slurm sets it, or export MASTER_ADDR"
    raise LaunchError(f"{name} is not a list of hosts", f"{name}={text[:200]}", reason, hint)
