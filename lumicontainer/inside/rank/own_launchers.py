"""Judge users' own launchers: horovodrun, and a configuration of accelerate."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from ..checking import resolved
from ..errors import LaunchError
from ..launch.mpi import has_mpi
from .context import Context

_HOROVODRUN = ("horovodrun", "horovod.runner", "horovod.runner.launch")
_NUMBER = ("-np", "--num-proc")
# The keys of accelerate's configuration that lumi-entry decides (accelerate/commands/launch.py).
_OVERRIDDEN = (
    *("num_machines", "machine_rank", "num_processes", "main_process_ip", "main_process_port"),
    *("same_network", "mixed_precision", "dynamo_backend"),
)


def check(context: Context) -> None:
    """Raise LaunchError if the program is horovodrun, and the image's MPI is MPICH."""
    words = list(context.program)
    if words[:1] in (["-m"], ["--"]):
        del words[0]
    name = os.path.basename(words[0]) if words else ""
    if name not in _HOROVODRUN or "--gloo" in words or not has_mpi(resolved()):
        return
    what = f"{name} cannot start ranks here"
    why = "Horovod's launcher does not recognize MPICH, the MPI of this image"
    hint = f"{_as_mpiexec(words)}; in a job of Slurm: srun --mpi=pmi2 … lumi-entry …"
    raise LaunchError(what, "the command line of lumi-entry", why, hint)


def _as_mpiexec(words: Sequence[str]) -> str:
    """Return the command that starts the same ranks."""
    joined = " ".join(words)
    number = re.search(rf"(?:{'|'.join(_NUMBER)})[ =](\d+)", joined)
    script = next((place for place, word in enumerate(words) if word.endswith(".py")), None)
    program = ["train.py"] if script is None else words[script:]
    return shlex.join(["mpiexec", "-n", number[1] if number else "2", "lumi-entry", *program])


def judge_configuration(context: Context) -> None:
    """Add a warning if accelerate's default configuration says what lumi-entry decides."""
    words = context.options.launcher_args.split()
    named = any(word.startswith("--config_file") for word in words)
    if context.start.launcher != "accelerate" or named:
        return
    path = _configuration(context.env)
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
        lost = list(_of_ranks(stream))
        if lost:
            context.warnings.append(
                f"lumi-entry decides these values of {path}: {', '.join(lost)}; give options of "
                f"your own by --launcher-args, such as '--config_file {path}'"
            )


def _configuration(env: Mapping[str, str]) -> str:
    # accelerate/commands/config/config_args.py
    cache = env.get("XDG_CACHE_HOME", os.path.join(env.get("HOME", ""), ".cache"))
    home = env.get("HF_HOME", os.path.join(cache, "huggingface"))
    return os.path.join(home, "accelerate", "default_config.yaml")


def _of_ranks(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        key, colon, value = line.strip().partition(":")
        if colon and key in _OVERRIDDEN and value.strip() not in ("", "null"):
            yield f"{key}={value.strip()}"
