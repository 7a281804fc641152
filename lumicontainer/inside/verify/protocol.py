"""What the ranks of a launcher say to each other: rank 0 listens, the others do as it orders.

Messages are lines of JSON. All that can be ordered is to run one of the image's own checks by its
name, or to end it; all that can be answered is what came of one. Both sides prove that they know
what the launcher told the processes of this step (a secret where it tells one, as HPE's does).

    0 → n  {"lumi-verify": 1, "nonce": …}
    n → 0  {"rank": 3, "node": "1", "host": …, "checks": …, "nonce": …, "proof": …}
    0 → n  {"proof": …} or {"refused": "why"}
    0 → n  {"run": "layer/name", "id": 7}, {"halt": "layer/name", "why": …}, {"end": true}
    n → 0  {"id": 7, "came": {…}}
"""

from __future__ import annotations

import hashlib
import hmac
import json

from ..rendezvous import FIRST_PORT, PORTS, port_of
from ..rendezvous import address as _address
from ..setting import is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..launchers import Launch

PROTOCOL = 1
SECRETS = (
    *("LUMI_VERIFY_SECRET", "PMI_SHARED_SECRET", "SLURM_JOB_ID", "SLURM_STEP_ID"),
    *("SLURM_STEP_LAUNCHER_PORT", "SLURM_SRUN_COMM_PORT", "PMI_JOBID", "MASTER_PORT"),
    *("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
)
"""What a launcher tells the processes of one step, and none of another; the first two only them.

MPICH's mpiexec tells nothing of the kind: LUMI_VERIFY_SECRET keeps two of them on a node apart.
"""
PLACES = 5
"""How many ports are tried: another program may have the first ones."""
_APART = 1999
MOST = 1 << 25
"""Bytes of a line; what came of a check has a megabyte of output at most."""
PROVE = 10
"""Seconds in which one who comes has to prove who it is."""


class GoneError(Exception):
    """Tell why a rank gives no answer any more."""


def secret(env: Mapping[str, str]) -> bytes:
    """Return what the processes of one step share."""
    told = "\0".join(f"{name}={env.get(name, '')}" for name in SECRETS)
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).digest()


def ports(env: Mapping[str, str], launch: Launch) -> list[int]:
    """Return the ports at which rank 0 may be found, none of them MASTER_PORT."""
    ids = [int(env[name]) for name in launch.ids if is_number(env.get(name, ""))]
    begin = port_of(*ids) if ids else FIRST_PORT
    each = [FIRST_PORT + (begin + _APART * (n + 1)) % PORTS for n in range(PLACES)]
    return [port for port in each if str(port) != env.get("MASTER_PORT")]


def address(env: Mapping[str, str], launch: Launch) -> str:
    """Return a name or address of the node that runs rank 0, as lumi-entry has it."""
    return env.get("MASTER_ADDR") or str(_address(env, launch).value)


def proof(key: bytes, *words: object) -> str:
    """Return what only one who knows ``key`` can say of ``words``."""
    return hmac.new(key, json.dumps(words).encode(), "sha256").hexdigest()


def is_same(proven: object, wanted: str) -> bool:
    """Tell whether what somebody sent is the proof that is wanted."""
    return hmac.compare_digest(str(proven).encode("utf-8", "replace"), wanted.encode())


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"


def unpacked(line: bytes) -> dict[str, Any]:
    """Return the message that a line holds; raise ValueError where it is none."""
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message
