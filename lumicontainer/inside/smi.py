"""Show the state of a node's GPUs before the start, once a node."""

from __future__ import annotations

import os
import sys

from .program import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context

TOOLS = (("rocm-smi", ()), ("amd-smi", ("monitor",)))
SECONDS = 20
"""A broken driver lets these tools wait for ever."""


def show(context: Context) -> None:
    """Write to stderr what ROCm's tool tells of this node."""
    found = [(find(name, context.env), words) for name, words in TOOLS]
    tool, words = next((pair for pair in found if pair[0]), ("", ()))
    if tool:
        text = _told([tool, *words])
    elif context.number("RANK"):
        return  # the image is the same on all nodes; rank 0 tells it
    else:
        text = "warning: --smi shows nothing: the image holds neither rocm-smi nor amd-smi\n"
    sys.stderr.write(text)
    sys.stderr.flush()


def _told(command: list[str]) -> str:
    """Run the tool; return what it wrote, in one piece, so that nodes do not mix."""
    import subprocess  # noqa: PLC0415 - slow to import, and only one rank a node comes here

    head = f"{os.path.basename(command[0])} on {os.uname().nodename}"
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return f"warning: {head} does not start: {error.strerror}\n"
    try:
        output = process.communicate(timeout=SECONDS)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        # One that waits in the driver cannot be killed; nobody waits for it here.
        os.killpg(process.pid, 9)
        return f"warning: {head} did not end in {SECONDS} s, and was left\n"
    ended = f", exit code {process.returncode}" if process.returncode else ""
    return f"{head}{ended}:\n{output.rstrip()}\n"
