"""MASTER_ADDR and MASTER_PORT: every rank computes the same values without communication."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping

from ..environment import DEFAULT, Setting, is_number, kept, number
from ..errors import ENVIRONMENT, LaunchError
from .hostlist import HostlistError, expand
from .launchers import Launch, nodes

FIRST_PORT = 10000
# A prime. The ports end at 19972: above the ports of Slurm's daemons (6817 to 6819), below
# torchrun's 29400, PyTorch's 29500 and the kernel's ephemeral ports (32768 and up).
PORTS = 9973
# About PORTS divided by the golden ratio: the steps of a job get ports far from each other and from
# the ports of jobs with a similar id.
STEP_STRIDE = 6163
DEFAULT_PORT = 29500  # PyTorch's own default
LAST_PORT = 65535
LOOPBACK = "127.0.0.1"
_LOCAL_PACKED = (bytes(16), bytes(15) + b"\1")  # :: and ::1
_IPV4_IN_6 = bytes(10) + b"\xff\xff"
_LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback")


def settings(env: Mapping[str, str], launch: Launch, warnings: list[str]) -> Iterator[Setting]:
    """Decide MASTER_ADDR and MASTER_PORT; raise LaunchError if the user's cannot work."""
    yield _judge_address(env, launch, warnings) if env.get("MASTER_ADDR") else address(env, launch)
    if env.get("MASTER_PORT"):
        _check_port(env["MASTER_PORT"])
        yield kept(env, "MASTER_PORT")
    else:
        yield port(env, launch)


# As with WORLD_SIZE, ranks stop that could only wait. Every rank sees an address of the loopback.
# The name of its own node is correct for rank 0, which cannot see that other nodes name themselves.
def _judge_address(env: Mapping[str, str], launch: Launch, warnings: list[str]) -> Setting:
    name, address = "MASTER_ADDR", env["MASTER_ADDR"]
    if (nodes(env, launch) or 1) == 1:
        return kept(env, name)
    where = f"launched by {launch.title}"
    if _is_loopback(address):
        what = (
            f"{name}={address} is each node's own address, but there are {nodes(env, launch)} nodes"
        )
        why = "the ranks of each node would wait for a rank 0 that is on another node"
        hint = f"unset {name}, or export the name of the first node"
        raise LaunchError(what, where, why, hint)
    hosts = _hosts(env, launch)
    if not hosts or _is_of(address, hosts[0]):
        return kept(env, name)
    own = _is_own(env, launch, address)
    if own or any(_is_of(address, host) for host in hosts[1:]):
        what = f"{name}={address} is a node without rank 0, which is on {hosts[0]}"
        why = "the ranks would wait for a rank 0 that is on another node"
        hint = (
            f"unset {name} ($(hostname) in each task names the task's own node); "
            "srun --kill-on-bad-exit=1 ends a rank 0 that waits"
        )
        first_to_see = own and launch.fact("NODE_RANK") == 1 and not launch.fact("LOCAL_RANK")
        raise LaunchError(what, where, why, hint, shown=first_to_see or launch.fact("RANK") == 0)
    if not _is_numeric(address):
        warnings.append(
            f"{name}={address} is kept, but no node of the step has this name: rank 0 is on "
            f"{hosts[0]} (unset {name} if the ranks do not meet)"
        )
    return kept(env, name)


def _hosts(env: Mapping[str, str], launch: Launch) -> list[str]:
    with contextlib.suppress(HostlistError):
        return next((expand(env[name]) for name in launch.nodelists if env.get(name)), [])
    return []


def _is_of(name: str, host: str) -> bool:
    """Return whether this is a node's name, with its domain or an interface such as -hsn0."""
    rest = name.lower()[len(host) :]
    return name.lower().startswith(host.lower()) and (not rest or rest[0] in ".-")


def _is_numeric(address: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, address)
            return True
    return False


def _is_loopback(address: str) -> bool:
    """Return whether an address means each node itself, in any form that resolvers read."""
    with contextlib.suppress(OSError, ValueError):
        return _is_local(socket.inet_aton(address))  # Also 127.1 and 2130706433.
    with contextlib.suppress(OSError, ValueError):
        packed = socket.inet_pton(socket.AF_INET6, address)
        return packed in _LOCAL_PACKED or (packed[:12] == _IPV4_IN_6 and _is_local(packed[12:]))
    return address.startswith("127.") or address.lower().partition(".")[0] in _LOCAL_NAMES


def _is_local(packed: bytes) -> bool:
    return packed[0] == 127 or not any(packed)


def _is_own(env: Mapping[str, str], launch: Launch, address: str) -> bool:
    """Return whether this is the node's own name or address, and the node is not the first."""
    if not launch.fact("NODE_RANK"):
        return False
    if not _is_numeric(address):
        names = filter(None, (os.uname().nodename, env.get("SLURMD_NODENAME")))
        return any(_is_of(address, own) for own in names)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((address, 0))  # The kernel refuses addresses of other nodes.
        except OSError:
            return False
    return True


def _check_port(text: str) -> None:
    if is_number(text) and 0 < int(text) <= LAST_PORT:
        return
    what = f"MASTER_PORT is not a port: {text[:40]!a}"
    why = f"the ranks meet at this port of the first node, a number from 1 to {LAST_PORT}"
    hint = "unset MASTER_PORT: lumi-entry then computes one"
    raise LaunchError(what, ENVIRONMENT, why, hint)


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
