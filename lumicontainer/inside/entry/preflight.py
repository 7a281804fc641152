"""Check a node before the ranks start: a bad one stops within seconds, and says its name.

Local rank 0 checks for its node and tells all that is wrong at once. A check that cannot be made
here is told as such and counts as neither. Each check is one function in ``CHECKS``.
"""

from __future__ import annotations

import os
import sys
import time

from ..environment import is_number
from ..errors import UNFIT, LaunchError
from ..rank import caches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..rank.context import Context

GIB = 1 << 30
LEAST_FREE = GIB
"""Bytes that the folder on the node needs for what ranks compile, and their temporary files."""
SECONDS = 20
"""A plugin whose network does not answer may wait for ever as it loads."""
SKEW = 5
"""Seconds by which a clock may differ from that of Slurm's controller, which counts whole ones."""
STA_UNSYNC = 0x40
"""Of adjtimex(2): nothing keeps the clock in step with a server's."""


class UnmadeError(Exception):
    """Carry why a check cannot be made on this node."""


class FailedError(Exception):
    """Carry what is wrong with this node."""


def check(context: Context) -> None:
    """Check this node; raise LaunchError where it is not fit."""
    passed, unmade, failed = [], [], []
    for name, look in CHECKS:
        try:
            passed.append(f"{name} ({look(context)})")
        except UnmadeError as reason:
            unmade.append(f"{name} ({reason})")
        except FailedError as reason:
            failed.append(f"{name}: {reason}")
    host = os.uname().nodename
    if failed:
        raise LaunchError(
            f"node {host} is not fit: {len(failed)} of {len(CHECKS)} checks failed",
            where=f"--preflight on {host}",
            why="\n         ".join([*failed, *(f"not checked: {text}" for text in unmade)]),
            hint=f"leave it out: sbatch --exclude={host}; srun --kill-on-bad-exit=1 stops the rest",
            code=UNFIT,
            told=True,
        )
    # All that holds on the other nodes is silence.
    if unmade or not context.number("RANK"):
        words = [f"passed: {', '.join(passed) or 'nothing'}"]
        words += [f"not checked: {', '.join(unmade)}"] if unmade else []
        sys.stderr.write(f"preflight of {host}: {'; '.join(words)}\n")


def gpus(context: Context) -> str:
    """Compare the GPUs that the kernel has with those of the platform, and try to open them.

    Those that Slurm hides from the task (a job with a part of a node) are there all the same.
    """
    wanted = [row["pci"].lower() for row in context.platform.get("gpus", ())]
    if not wanted:
        raise UnmadeError("the platform names no GPUs")
    found = {gpu.pci.lower() for gpu in context.node.gpus()}
    hidden = context.node.hidden_gpus()
    missing = [f"GCD {number} ({pci})" for number, pci in enumerate(wanted) if pci not in found]
    if len(missing) > hidden:
        here = f"{len(wanted) - len(missing) + hidden} of {len(wanted)} are there"
        among = f", {hidden} of them hidden from this task; not seen: " if hidden else "; missing: "
        raise FailedError(f"{here}{among}{', '.join(missing)}")
    device = os.path.join(context.node.root, "dev/kfd")
    if not os.access(device, os.R_OK | os.W_OK):
        raise FailedError(f"{device} cannot be opened, so no program reaches them")
    return f"all {len(wanted)}" + (f", {hidden} hidden from this task" if hidden else "")


def interfaces(context: Context) -> str:
    """Look whether the network's interfaces are there and up."""
    prefix = context.platform.get("interface_prefix", "")
    if not prefix:
        raise UnmadeError("the platform names no interfaces")
    found = context.node.interfaces(prefix)
    down = [one.name for one in found if not one.up]
    if not found:
        raise FailedError(f"there is no interface {prefix}*")
    if down:
        raise FailedError(f"{', '.join(down)} of {len(found)} {prefix}* {_are(down)} down")
    return f"{len(found)} {prefix}* up"


def plugin(context: Context) -> str:
    """Load the network plugin of RCCL as RCCL would, in a process of its own."""
    rows = context.platform.get("variables", ())
    told = [row.get("value", "") for row in rows if row["name"] == "NCCL_NET_PLUGIN"]
    name = context.env.get("NCCL_NET_PLUGIN") or (told[0] if told else "")
    if name == "none":
        raise UnmadeError("NCCL_NET_PLUGIN=none asks for none")
    if not name and not context.platform.get("interface_prefix"):
        raise UnmadeError("the platform names no network that needs one")
    library = name or "librccl-net.so"
    if ".so" not in library:
        library = f"librccl-net-{name}.so"
    error = _load(library)
    if error:
        raise FailedError(f"{library} does not load: {error}")
    return library


def _load(library: str) -> str:
    from ..node import time_limit  # noqa: PLC0415 - slow to import, and not every check needs it

    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    code, text = time_limit.run([sys.executable, "-I", "-S", "-B", "-c", load, library], SECONDS)
    if code == 0:
        return ""
    if code is None:
        return f"it was not done after {SECONDS} s"
    if code < 0:
        return f"it ends the process with signal {-code}"
    return text.rpartition("OSError: ")[2] or f"it ends the process with exit code {code}"


def disk(context: Context) -> str:
    """Look for room in the folder on the node that caches and temporary files go to."""
    base, reason = caches.base(context)
    if not base:
        raise FailedError(f"no folder on the node can be used: {reason}")
    status = os.statvfs(base)
    free = status.f_bavail * status.f_frsize
    if free < LEAST_FREE:
        raise FailedError(f"{base} has {free / GIB:.1f} GiB free, less than {LEAST_FREE / GIB:.0f}")
    if status.f_files and not status.f_favail:
        raise FailedError(f"{base} takes no more files: it has no free inode")
    return f"{free / GIB:.0f} GiB free in {base}"


def memory(context: Context) -> str:
    """Compare the memory that is available with what Slurm granted, else with all there is."""
    try:
        with open(os.path.join(context.node.root, "proc/meminfo"), encoding="ascii") as stream:
            fields = dict(line.split(":") for line in stream)
        total, available = (
            int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable")
        )
    except (OSError, LookupError, ValueError) as error:
        raise UnmadeError("/proc/meminfo does not tell it") from error
    granted, source = _granted(context.env)
    # What the system itself takes is granted by Slurm as well where a job has the whole node.
    least = min(granted or total, total) * 9 // 10 if granted else total // 10
    if available < least:
        raise FailedError(
            f"{available / GIB:.0f} GiB of {total / GIB:.0f} are available, less than "
            f"{least / GIB:.0f} (nine tenths of {source})"
            if granted
            else f"{available / GIB:.1f} GiB of {total / GIB:.1f} are available, less than a tenth"
        )
    return f"{available / GIB:.0f} of {total / GIB:.0f} GiB available"


def _granted(env: Any) -> tuple[int, str]:
    """Return the bytes that Slurm grants on this node and the variables that say so; or 0."""
    for names in (("SLURM_MEM_PER_NODE",), ("SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE")):
        values = [env.get(name, "") for name in names]
        if all(map(is_number, values)):
            product = 1
            for value in values:
                product *= int(value)
            return product << 20, " x ".join(names)
    return 0, ""


def clock(context: Context) -> str:
    """Compare the clock with the times that Slurm's controller gave the job.

    Without them there is only the kernel's word on whether a server keeps it right.
    """
    now = time.time()
    limits = [context.env.get(name, "") for name in ("SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME")]
    for given, sign, text in zip(limits, (1, -1), ("before the job's start", "after its end")):
        if is_number(given) and sign * (int(given) - now) > SKEW:
            raise FailedError(
                f"it is {abs(int(given) - now):.0f} s {text}, says Slurm's controller"
            )
    if is_number(limits[0]):
        return "after the job's start"
    if not _is_in_step():
        raise UnmadeError("no time of the job's start, and the kernel knows of no server's time")
    return "kept in step with a server's"


def _is_in_step() -> bool:
    """Tell what the kernel was told by the daemon that keeps its clock (adjtimex(2))."""
    import ctypes  # noqa: PLC0415 - slow to import, and only one rank a node comes here

    # struct timex is 208 bytes with room to grow; modes (first) 0 only reads; status is the
    # sixth field, after an int, padding and four longs of 8 bytes.
    record = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).adjtimex(record) < 0:
        return False
    return not ctypes.c_int.from_buffer(record, 5 * ctypes.sizeof(ctypes.c_long)).value & STA_UNSYNC


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


CHECKS: tuple[tuple[str, Callable[[Context], str]], ...] = (
    ("GPUs", gpus),
    ("network", interfaces),
    ("plugin", plugin),
    ("disk", disk),
    ("memory", memory),
    ("clock", clock),
)
