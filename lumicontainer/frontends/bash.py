"""Write what an image needs of a host as text for bash."""

import os
import shlex
from collections.abc import Mapping, Sequence

from lumicontainer.host.binds import Needs
from lumicontainer.system.terminal.output import line, printable


def array_of(needs: Needs, platform: str, options: Sequence[str], image: str) -> str:
    """Return the options of the engine as the array ``binds``, and the exports for srun."""
    rows = [(option, "root lacks some capabilities on this host") for option in options]
    rows += [(f"--bind {word(str(mount))}", mount.reason) for mount in needs.mounts]
    rows += [(f"--env {word(f'{v.name}={v.value}')}", v.reason) for v in needs.variables]
    text = [
        f"# What {_comment(image)} needs of this host ({platform}):",
        '# singularity exec "${binds[@]}" IMAGE COMMAND',
        *(f"# not on this host: {_comment(f'{b.path}: {b.reason}')}" for b in needs.absent),
        "binds=(",
        *(f"    {option}  # {_comment(reason)}" for option, reason in rows),
        ")",
    ]
    if needs.exports:
        text.append("# srun reads it: MPI in the image starts through PMI2.")
    return "".join(f"{each}\n" for each in text) + exports_of(needs.exports)


def exports_of(variables: Mapping[str, str]) -> str:
    """Return lines that export variables."""
    return "".join(f"export {name}={word(value)}\n" for name, value in variables.items())


def _comment(text: str) -> str:
    """Return a text that stays within a comment, and cannot control a terminal."""
    return printable(" ".join(text.split()))


def word(text: str) -> str:
    """Return a text as one word for bash, on one line, that cannot control a terminal."""
    if line(text) == text:
        return shlex.quote(text)
    octal = "".join(f"\\{byte:03o}" for byte in os.fsencode(text))
    return f"$'{octal}'"
