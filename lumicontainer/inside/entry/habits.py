"""Hints for users of torchrun, accelerate, deepspeed, mpirun and Python: they write such words."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from ..launch.program import find

_NUMBER = r"--?(nproc[-_]per[-_]node|nproc|num[-_]processes|num[-_]gpus|num[-_]proc|np|n)"
_LEAVE_OUT = "leave it out: lumi-entry sets it from the variables of srun or mpiexec"
_OPTIONS = (
    (_NUMBER, "write --launcher torchrun --nproc {value}"),
    (r"-N|--(nnodes|num[-_]nodes|num[-_]machines)", "leave it out: srun -N starts the nodes"),
    (r"--(node|machine|local|world)?[-_]?(rank|size)", _LEAVE_OUT),
    (r"--(master|main[-_]process)[-_](addr|port|ip)", _LEAVE_OUT),
    (r"--(rdzv[-_].*|standalone)", _LEAVE_OUT),
    (r"--(max[-_]restarts|mixed[-_]precision|config[-_]file|tee|role)", "{as_launcher_args}"),
)
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_STARTERS = ("srun", "mpirun", "mpiexec", "horovodrun")
_PYTHON = re.compile(r"python3?(\.\d+)?")


def option_hint(name: str, value: str) -> str:
    """Return the hint for an option of another launcher, with its value; empty if it is none."""
    value = "" if value.startswith("-") or value.endswith(".py") else value
    arguments = shlex.quote(f"{name} {value or 'VALUE'}")
    known = {"value": value or "N", "as_launcher_args": f"write --launcher-args {arguments}"}
    found = (hint for pattern, hint in _OPTIONS if re.fullmatch(pattern, name))
    return next(found, "").format_map(known)


def program_hint(words: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the hint for a command in place of a script; empty if it is none.

    ``words`` are the command and its arguments.
    """
    name, rest = os.path.basename(words[0]), list(words[1:])
    if _PYTHON.fullmatch(name) and rest and (rest[0] == "-m" or rest[0][0] != "-"):
        return shlex.join(["lumi-entry", *rest])
    if name in _LAUNCHERS:
        number = re.search(rf"{_NUMBER}[ =](\d+)", " ".join(rest))
        options = ["--launcher", name, "--nproc", number[2] if number else "2"]
        return shlex.join(["lumi-entry", *options, *_script(rest)])
    if name in _STARTERS:
        return f"write lumi-entry behind it: {name} … lumi-entry {shlex.join(_script(rest))}"
    return shlex.join(["lumi-entry", "--", *words]) if find(words[0], env) else ""


def _script(words: Sequence[str]) -> Sequence[str]:
    """Return the script among the arguments of a launcher, with what follows it."""
    place = next((at for at, word in enumerate(words) if word.endswith(".py")), None)
    return ["train.py"] if place is None else words[place:]
