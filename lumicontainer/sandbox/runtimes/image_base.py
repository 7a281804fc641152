"""Make the tree of a base that is an image of a registry."""

import shlex
from collections.abc import Sequence

from lumicontainer.sandbox.runtimes.runtime import OWNERS, Base
from lumicontainer.system import process


def fill_commands(
    base: Base, as_root: Sequence[str], download: Sequence[str] = ()
) -> list[Sequence[str]]:
    """Return the commands that make and fill the tree; ``as_root`` begins one that runs as root.

    ``download`` takes the place of the command that saves an image of a registry.
    """
    tree, record = str(base.tree), str(base.folder / OWNERS)
    module = "lumicontainer.sandbox.tree.foreign.unpack_image"
    unpack = process.module_command(module, str(base.folder), tree, record)
    return [download or _save_command(base), [*as_root, *unpack]]


def _save_command(base: Base) -> list[str]:
    trust = [str(base.site.trust)] if base.site.trust else []
    words = [base.bootstrap.image, str(base.folder), "http" if base.plain else "https", *trust]
    return process.module_command("lumicontainer.host.registry", *words)


def script_text(commands: Sequence[Sequence[str]]) -> str:
    """Return a shell script that runs commands until one fails."""
    return "set -e\n" + "".join(f"{shlex.join(each)}\n" for each in commands)


def script_command(base: Base, commands: Sequence[Sequence[str]]) -> list[str]:
    """Write a script that runs commands until one fails; return the command that runs it."""
    script = base.folder / "base.sh"
    script.write_text(script_text(commands))
    return ["bash", str(script)]
