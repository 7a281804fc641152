"""Judge the program of a job: who starts its ranks, and how many."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lumicontainer.errors import Problem
from lumicontainer.system import units

ENTRY = "lumi-entry"
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Programs that start the ranks of a node in one task."""
_OF_TORCH = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_COUNT = re.compile(r"--(nproc|nproc[-_]per[-_]node|num_gpus)(?:=(.*))?")
_SHARING = "--allow-gpu-sharing"


def full_command(words: Sequence[str], launcher: str) -> list[str]:
    """Return the command of each task: Python programs are started by lumi-entry."""
    chosen = ["--launcher", launcher] if launcher else []
    if words[:1] == [ENTRY]:
        return [ENTRY, *chosen, *words[1:]]
    return [ENTRY, *chosen, *words] if is_python(words) else [*words]


def is_python(words: Sequence[str]) -> bool:
    """Return whether a command is a script or a module of Python, without its interpreter."""
    return bool(words) and (words[0].endswith(".py") or words[0] == "-m")


def with_count(words: Sequence[str], ranks: int) -> list[str]:
    """Return a command of lumi-entry in which its launcher knows the ranks of a node."""
    if words[:2] != [ENTRY, "--launcher"] or not ranks or any(map(_COUNT.fullmatch, words)):
        return [*words]
    return [*words[:3], "--nproc", str(ranks), *words[3:]]


def launcher_of(words: Sequence[str]) -> str:
    """Return the launcher that starts the ranks of a node; empty if each task is a rank."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--launcher" and following in LAUNCHERS:
            return following
        if word.startswith("--launcher=") and word.partition("=")[2] in LAUNCHERS:
            return word.partition("=")[2]
        if word == "-m" and following in _OF_TORCH:
            return following
        if word.endswith(".py"):
            break
    first = Path(next((word for word in words if word not in (ENTRY, "--")), "")).name
    return first if first in LAUNCHERS else ""


def log_folder(words: Sequence[str]) -> str:
    """Return the folder in which lumi-entry writes a log of each rank; the current one if none."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if words[0] != ENTRY or word.endswith(".py"):
            break
        if word == "--log-dir":
            return following or "."
        if word.startswith("--log-dir="):
            return word.partition("=")[2]
    return "."


def program_faults(words: Sequence[str], launcher: str, gpus: int) -> Iterator[Problem]:
    """Yield why a command cannot run in a job with so many GPUs on a node."""
    if launcher and full_command(words, launcher) == [*words]:
        what = f"{launcher} starts Python programs, not '{words[0]}'"
        yield Problem(what, "--launcher", hint="write -- train.py, or leave out --launcher")
    if launcher and any(word.partition("=")[0] == "--launcher" for word in words):
        hint = "name the launcher once"
        yield Problem("two launchers are named", "--launcher", hint=hint)
    ranks = _ranks(words)
    if gpus and ranks > gpus and _SHARING not in words:
        what = f"{ranks} ranks of a node have {units.count(gpus, 'GPU')}"
        yield Problem(what, "the program's options", "each rank needs a GPU", f"write {gpus}")


def _ranks(words: Sequence[str]) -> int:
    """Return the number of ranks that the options of a launcher name for a node; 0 for none."""
    if not launcher_of(words):
        return 0
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.endswith(".py"):
            break
        if match := _COUNT.fullmatch(word):
            text = match[2] or following
            return int(text) if re.fullmatch(r"(?a)\d{1,9}", text) else 0
    return 0


def script_of(words: Sequence[str]) -> str:
    """Return the Python script that a command runs, if it names one by a relative path."""
    script = next((word for word in words if word.endswith(".py") and word[0] != "-"), "")
    return "" if Path(script).is_absolute() else script
