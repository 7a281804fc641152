"""Tell programs that train from all others."""

import re

from lumicontainer.jobs.lint.reading.model import Start

_PYTHON = re.compile(r"python[0-9.]*")
_TRAINING = re.compile(r"[\w./-]*(train|pretrain|finetune|main|ddp|run)\w*\.py", re.IGNORECASE)
_OWN_GPUS = ("vllm", "ray", "sglang", "jupyter", "tensorboard")
"""Programs that use several GPUs, or none, from one process."""
_TOOLS = re.compile(r"-c|-V|--version|-m|-")


def runs_python(start: Start) -> bool:
    """Return whether the program is Python with a script of the user's."""
    return bool(start.program and _PYTHON.fullmatch(_name(start.program[0].text)) and script(start))


def script(start: Start) -> str:
    """Return the script that Python runs; empty if it is a module, or text on the command line."""
    for word in start.program[1:]:
        if _TOOLS.fullmatch(word.text):
            return ""
        if not word.text.startswith("-"):
            return word.text if word.text.endswith(".py") else ""
    return ""


def uses_gpus(start: Start) -> bool:
    """Return whether a program likely trains, with one process for each GPU."""
    words = " ".join(each.text for each in start.program)
    return (
        runs_python(start)
        and bool(_TRAINING.match(script(start)))
        and not any(each in words for each in _OWN_GPUS)
    )


def uses_mpi(start: Start) -> bool:
    """Return whether a program calls MPI by its name."""
    words = [each.text for each in start.program[:4]]
    return any(
        _name(each).startswith("osu_") or re.search("mpi4py|horovod", each, re.IGNORECASE)
        for each in words
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]
