"""Hints for users of torchrun, accelerate, deepspeed, mpirun and Python: they write such words."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from ..environment import is_number
from ..launch.program import find
from ..rank.context import NODE_LAUNCHERS

_NUMBER = r"--?(nproc[-_]per[-_]node|nproc|num[-_]processes|num[-_]gpus|num[-_]proc|np|n)"
_LEAVE_OUT = "leave it out: lumi-entry sets it from the variables of srun or mpiexec"
_OPTIONS = (
    (_NUMBER, "write --launcher torchrun --nproc {number}"),
    (r"-N|--(nnodes|num[-_]nodes|num[-_]machines)", "leave it out: srun -N starts the nodes"),
    (r"--(node|machine|local|world)?[-_]?(rank|size)", _LEAVE_OUT),
    (r"--(master|main[-_]process)[-_](addr|port|ip)", _LEAVE_OUT),
    (r"--(rdzv[-_].*|standalone)", _LEAVE_OUT),
    (r"--(max[-_]restarts|mixed[-_]precision|config[-_]file|tee|role)", "{as_launcher_args}"),
)
_STARTERS = ("srun", "mpirun", "mpiexec", "horovodrun")
_PYTHON = re.compile(r"python3?(\.\d+)?")


def option_hint(name: str, value: str) -> str:
    """Return the hint for an option of another launcher, with its value; empty for others."""
    value = "" if value.startswith("-") or value.endswith(".py") else value
    arguments = shlex.quote(f"{name} {value or 'VALUE'}")
    number = value if is_number(value) else "N"
    known = {"number": number, "as_launcher_args": f"write --launcher-args {arguments}"}
    hints = (hint for pattern, hint in _OPTIONS if re.fullmatch(pattern, name))
    return next(hints, "").format_map(known)


def program_hint(words: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the hint for a command in place of a script; empty if it is not one.

    ``words`` are the command and its arguments.
    """
    name, rest = os.path.basename(words[0]), list(words[1:])
    if _PYTHON.fullmatch(name) and rest and (rest[0] == "-m" or rest[0][0] != "-"):
        return shlex.join(["lumi-entry", *rest])
    if name in NODE_LAUNCHERS:
        number = re.search(rf"{_NUMBER}[ =](\d+)", " ".join(rest))
        options = ["--launcher", name, "--nproc", number[2] if number else "N"]
        return shlex.join(["lumi-entry", *options, *_script(rest, by_launcher=True)])
    if name in _STARTERS:
        script = shlex.join(_script(rest, by_launcher=False))
        return f"write lumi-entry behind it: {name} … lumi-entry {script}"
    return shlex.join(["lumi-entry", "--", *words]) if find(words[0], env) else ""


def _script(words: Sequence[str], *, by_launcher: bool) -> Sequence[str]:
    """Return the script or the module among the arguments of a starter, with what follows it.

    Those of torchrun and its like name a module themselves; -m of srun is another option.
    """
    for before, word, place in zip(["", *words], words, range(len(words))):
        if word.endswith(".py"):
            return words[place:]
        if word in ("-m", "--module") and (by_launcher or _PYTHON.fullmatch(before)):
            return ["-m", *words[place + 1 :]]
    return ["train.py"]
