"""Show the state of a node's GPUs before the start, once a node."""

from __future__ import annotations

import os
import sys

from ..launch.program import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..rank.context import Context

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
    from ..node import time_limit  # noqa: PLC0415 - slow to import, and nothing runs where no tool is

    head = f"{os.path.basename(command[0])} on {os.uname().nodename}"
    try:
        code, text = time_limit.run(command, SECONDS)
    except OSError as error:
        return f"warning: {head} does not start: {error.strerror}\n"
    if code is None:
        return f"warning: {head} did not end in {SECONDS} s, and was left\n"
    return f"{head}{f', exit code {code}' if code else ''}:\n{text}\n"
