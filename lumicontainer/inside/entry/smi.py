"""Print the state of a node's GPUs with rocm-smi or amd-smi before the start (--smi)."""

from __future__ import annotations

import os
import sys

from ..launch.program import find
from ..node import time_limit
from ..rank.context import Context

TOOLS = (("rocm-smi", ()), ("amd-smi", ("monitor",)))
SECONDS = 20
"""With a broken driver these tools never end."""


def show(context: Context) -> None:
    """Print the tool's output to stderr, once a node."""
    if not context.options.smi or context.number("LOCAL_RANK"):
        return
    found = [(find(name, context.env), words) for name, words in TOOLS]
    tool, words = next((pair for pair in found if pair[0]), ("", ()))
    if tool:
        text = _state([tool, *words])
    elif context.number("RANK"):
        return  # rank 0 prints it: the image is the same on all nodes
    else:
        text = "warning: --smi: there is neither rocm-smi nor amd-smi in the image\n"
    sys.stderr.write(text)
    sys.stderr.flush()


def _state(command: list[str]) -> str:
    """Run the tool; return its output as one text, so that lines of nodes do not mix."""
    head = f"{os.path.basename(command[0])} on {os.uname().nodename}"
    try:
        code, text = time_limit.run(command, SECONDS)
    except OSError as error:
        return f"warning: {head} does not start: {error.strerror}\n"
    if code is None:
        return f"warning: {head} did not end within {SECONDS} s\n"
    return f"{head}{f', exit code {code}' if code else ''}:\n{text}\n"
