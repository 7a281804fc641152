"""Check each node before the ranks start (--preflight), and show the state of its GPUs (--smi).

Local rank 0 checks its node and reports all failures together. A check that cannot be made here is
reported as such, and is not a failure. Each check is one function in ``CHECKS``.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..environment import PLUGINS, optional_number
from ..errors import UNFIT, LaunchError
from ..launch.program import find
from ..messages import write_message
from ..node.addresses import address_of
from ..rank import caches
from ..rank.context import Context

GIB = 1 << 30
LEAST_FREE = GIB  # free bytes that caches and temporary files of ranks need on the node
SECONDS = 20  # with a broken driver or network, plugins and tools never end
SKEW = 5  # permitted seconds from the clock of Slurm's controller, which has whole seconds
IN_MEMORY = ("tmp", "dev/shm")  # folders of the node whose files may lie in its memory
SLOW = 1.0  # seconds after which a name service counts as slow
TOOLS = (("rocm-smi", ()), ("amd-smi", ("monitor",)))


def show_gpus(context: Context) -> None:
    """Print the output of ROCm's tool to stderr, once a node."""
    if not context.options.smi or context.number("LOCAL_RANK"):
        return
    commands = [[find(name, context.env), *words] for name, words in TOOLS]
    command = next((each for each in commands if each[0]), [])
    if command:
        write_message(_state(command))
    elif not context.number("RANK"):  # the image is the same on all nodes
        write_message("warning: --smi: there is neither rocm-smi nor amd-smi in the image\n")


def _state(command: Sequence[str]) -> str:
    """Return the output of a tool as one text, so that lines of nodes do not mix."""
    head = f"{os.path.basename(command[0])} on {os.uname().nodename}"
    try:
        code, text = _run(command)
    except OSError as error:
        return f"warning: {head} does not start: {error.strerror}\n"
    if code is None:
        return f"warning: {head} did not end within {SECONDS} s\n"
    return f"{head}{f', exit code {code}' if code else ''}:\n{text}\n"


def _run(command: Sequence[str]) -> tuple[int | None, str]:
    """Return the exit code of a command and its output; the code is None after SECONDS.

    A process that waits in the driver cannot be killed, and stays.
    """
    # If SIGCHLD is ignored, each process seems to end with 0. The program inherits what it was.
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        return _run_to_its_end(command)
    finally:
        signal.signal(signal.SIGCHLD, before)


def _run_to_its_end(command: Sequence[str]) -> tuple[int | None, str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return None, ""
    return process.returncode, output.decode(errors="replace").strip()


class UnmadeError(Exception):
    """Report why a check cannot be made on this node."""


class FailedError(Exception):
    """Report why this node fails a check."""


def check(context: Context) -> None:
    """Check this node; raise LaunchError if it fails."""
    if not context.options.preflight or context.number("LOCAL_RANK"):
        return
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
        what = f"node {host} is not fit: {len(failed)} of {len(CHECKS)} checks failed"
        why = "\n         ".join([*failed, *(f"not checked: {text}" for text in unmade)])
        hint = f"exclude it: sbatch --exclude={host}; srun --kill-on-bad-exit=1 stops the rest"
        raise LaunchError(what, f"--preflight on {host}", why, hint, code=UNFIT, shown=True)
    # Other nodes print only checks that were not made.
    if unmade or not context.number("RANK"):
        words = [f"passed: {', '.join(passed) or 'nothing'}"]
        words += [f"not checked: {', '.join(unmade)}"] if unmade else []
        write_message(f"preflight of {host}: {'; '.join(words)}\n")


def gpus(context: Context) -> str:
    """Compare the kernel's GPUs with the platform's, and check their permissions.

    GPUs that Slurm hides from the task (a job with a part of a node) count as present.
    """
    expected = [row["pci"].lower() for row in context.platform.get("gpus", ())]
    if not expected:
        raise UnmadeError("the platform lists no GPUs")
    present = {gpu.pci.lower() for gpu in context.node.gpus()}
    hidden = context.node.hidden_gpus()
    missing = [f"GCD {number} ({pci})" for number, pci in enumerate(expected) if pci not in present]
    if len(missing) > hidden:
        here = f"{len(expected) - len(missing) + hidden} of {len(expected)} are present"
        among = f", {hidden} of them hidden from this task; not seen: " if hidden else "; missing: "
        raise FailedError(f"{here}{among}{', '.join(missing)}")
    device = os.path.join(context.node.root, "dev/kfd")
    if not os.access(device, os.R_OK | os.W_OK):
        raise FailedError(f"{device} cannot be opened, so no program can use them")
    return f"all {len(expected)}" + (f", {hidden} hidden from this task" if hidden else "")


def interfaces(context: Context) -> str:
    """Check that the network's interfaces exist and are up."""
    prefix = context.platform.get("interface_prefix", "")
    if not prefix:
        raise UnmadeError("the platform lists no interfaces")
    matching = context.node.interfaces(prefix)
    down = [one.name for one in matching if not one.up]
    if not matching:
        raise FailedError(f"there is no interface {prefix}*")
    if down:
        raise FailedError(f"of {len(matching)} {prefix}*, these are down: {', '.join(down)}")
    return f"{len(matching)} {prefix}* up"


# PyTorch asks for the name behind each connection of its store, and so does each rank (c10d,
# socket.cpp): with a name service that waits for a server, ranks give up before all have met.
def names(context: Context) -> str:
    """Time the look-up of this node's name by the address of its high-speed interface."""
    prefix = context.platform.get("interface_prefix", "")
    up = [one.name for one in context.node.interfaces(prefix) if one.up] if prefix else []
    address = next(filter(None, map(address_of, up)), "")
    if not address:
        raise UnmadeError("no high-speed interface has an address")
    code, text = _run([sys.executable, "-I", "-S", "-B", "-c", _LOOK_UP, address])
    if code is None:
        raise FailedError(
            f"the name service does not answer for {address} within {SECONDS} s (getnameinfo)"
        )
    if code:
        raise UnmadeError(f"the look-up of {address} ended with exit code {code}")
    took = float(text)
    if took > SLOW:
        context.notes.append(
            f"warning: the name service of {os.uname().nodename} took {took:.1f} s for {address} "
            "(getnameinfo): each rank asks it for each connection, so many ranks may not meet "
            "(the nodes' addresses belong in /etc/hosts; tell the site)"
        )
    return f"{address} in {took:.2f} s"


# A name service whose server does not answer fails at last, and the time counts all the same.
_LOOK_UP = """
import contextlib, socket, sys, time
start = time.monotonic()
with contextlib.suppress(OSError):
    socket.getnameinfo((sys.argv[1], 0), 0)
print(time.monotonic() - start)
"""


def plugin(context: Context) -> str:
    """Load the network plugin of RCCL as RCCL would, in a separate process."""
    rows = context.platform.get("variables", ())
    values = [row.get("value", "") for row in rows if row["name"] == "NCCL_NET_PLUGIN"]
    name = context.env.get("NCCL_NET_PLUGIN") or (values[0] if values else "")
    if name == "none":
        raise UnmadeError("NCCL_NET_PLUGIN=none")
    if not name and not context.platform.get("interface_prefix"):
        raise UnmadeError("the platform has no network that needs one")
    layers = context.platform.get("layers")
    if not context.env.get("NCCL_NET_PLUGIN") and layers is not None and not {*PLUGINS} & {*layers}:
        raise UnmadeError("the image has no network plugin")
    library = name or "librccl-net.so"
    if ".so" not in library:
        library = f"librccl-net-{name}.so"
    error = _load(library)
    if error:
        raise FailedError(f"{library} does not load: {error}")
    return library


def _load(library: str) -> str:
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    code, text = _run([sys.executable, "-I", "-S", "-B", "-c", load, library])
    if code == 0:
        return ""
    if code is None:
        return f"it did not finish within {SECONDS} s"
    if code < 0:
        return f"it ends the process with signal {-code}"
    return text.rpartition("OSError: ")[2] or f"it ends the process with exit code {code}"


def disk(context: Context) -> str:
    """Check the free space in the folder on the node for caches and temporary files."""
    base, reason = caches.base(context)
    if not base:
        raise FailedError(f"no folder on the node is usable: {reason}")
    status = os.statvfs(base)
    free = status.f_bavail * status.f_frsize
    if free < LEAST_FREE:
        raise FailedError(f"{base} has {free / GIB:.1f} GiB free, less than {LEAST_FREE / GIB:.0f}")
    if status.f_files and not status.f_favail:
        raise FailedError(f"{base} has no free inode")
    return f"{free / GIB:.0f} GiB free in {base}"


def memory(context: Context) -> str:
    """Compare the available memory with what Slurm granted, else with all memory."""
    rows = dict(re.findall(r"(?m)^(\w+): +(\d+) kB$", context.node.text("proc/meminfo")))
    try:
        total, available = (int(rows[name]) * 1024 for name in ("MemTotal", "MemAvailable"))
    except KeyError as error:
        raise UnmadeError("/proc/meminfo cannot be read") from error
    granted, source = _granted(context.env)
    # For whole nodes, Slurm grants the memory of the system as well.
    least, share = total // 10, "a tenth of all"
    if granted:
        least, share = min(granted, total) * 9 // 10, f"nine tenths of {source}"
    own, where = _in_own_files(context) if available < least else (0, "")
    but = f"; your files in {where} occupy {own / GIB:.1f} GiB" if own else ""
    if available + own < least:
        raise FailedError(
            f"{available / GIB:.1f} GiB of {total / GIB:.1f} are available, less than "
            f"{least / GIB:.1f} ({share}){but}"
        )
    return f"{available / GIB:.0f} of {total / GIB:.0f} GiB available{but}"


def _in_own_files(context: Context) -> tuple[int, str]:
    """Return the bytes of this user's files that lie in memory, and their folders."""
    # The job's cgroup knows more, but SingularityCE with setuid mounts a /sys without cgroups.
    folders = [os.path.join(context.node.root, name) for name in IN_MEMORY]
    folders = [each for each in folders if caches.file_system(each, context.node) == "tmpfs"]
    size = 0
    for path, _, names in itertools.chain.from_iterable(map(os.walk, folders)):
        for name in names:
            with contextlib.suppress(OSError):  # files may be removed meanwhile
                status = os.lstat(os.path.join(path, name))
                size += status.st_blocks * 512 if status.st_uid == os.geteuid() else 0
    return size, " and ".join(folders)


def _granted(env: Any) -> tuple[int, str]:
    """Return the bytes that Slurm grants on this node, and the variables read; or 0."""
    for names in (("SLURM_MEM_PER_NODE",), ("SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE")):
        values = [optional_number(env, name) or 0 for name in names]
        if all(values):
            return math.prod(values) << 20, " x ".join(names)
    return 0, ""


def clock(context: Context) -> str:
    """Compare the clock with the job's start and end times of Slurm's controller."""
    now = time.time()
    start = optional_number(context.env, "SLURM_JOB_START_TIME")
    end = optional_number(context.env, "SLURM_JOB_END_TIME")
    if start is not None and start - now > SKEW:
        raise FailedError(f"it is {start - now:.0f} s before the job's start on Slurm's controller")
    if end is not None and now - end > SKEW:
        raise FailedError(f"it is {now - end:.0f} s after the job's end on Slurm's controller")
    if start is None:
        raise UnmadeError("the job's start is unknown")
    return "after the job's start"


CHECKS: tuple[tuple[str, Callable[[Context], str]], ...] = (
    ("GPUs", gpus),
    ("network", interfaces),
    ("names", names),
    ("plugin", plugin),
    ("disk", disk),
    ("memory", memory),
    ("clock", clock),
)
