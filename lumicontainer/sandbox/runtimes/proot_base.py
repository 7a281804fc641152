"""Make the tree of a base under PRoot: debootstrap in two stages, or an image."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.constants import EPOCH
from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.errors import HostError, Problem
from lumicontainer.host.site import DEBIAN_KEYRING
from lumicontainer.sandbox.runtimes.image_base import fill_commands, script_text
from lumicontainer.sandbox.runtimes.runtime import Base
from lumicontainer.system import process

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "console", "ptmx")
_LEFT_OUT = "openssl,udev,debconf-i18n,e2fsprogs"
"""Files that Apptainer's own bootstrap leaves out (its conveyorPacker_debootstrap.go)."""
# Debootstrap tries no mount and no device in a container of LXC. Apptainer leaves these files.
_STAGES = """\
set -e
{outside} env {settings} {first}
{inside} env {settings} DEBOOTSTRAP_DIR=/debootstrap \
  sh /debootstrap/debootstrap --second-stage
rm -f {tree}/etc/resolv.conf
touch {tree}/etc/resolv.conf
chmod 0644 {tree}/etc/resolv.conf
cd {tree}/dev
rm -f full tty console ptmx
touch null random urandom zero
chmod 0644 null random urandom zero
"""
_AFTER = """\
{inside} -b {script}:/.base.sh env {settings} bash -euo pipefail /.base.sh
rm -f {tree}/.base.sh
"""


def require_debootstrap() -> None:
    """Raise ``HostError`` if this host has no debootstrap."""
    if process.find("debootstrap") is None:
        hint = "install the package debootstrap, or take a base with the agent docker"
        raise HostError(Problem("cannot make the base: debootstrap not found", hint=hint))


def device_options(tree: Path) -> list[str]:
    """Return the options of PRoot that show the host's devices in the tree, and make none."""
    return [word for each in _DEVICES for word in ("-b", f"/dev/{each}:{tree}/dev/{each}")]


def command(base: Base, *, outside: Sequence[str], inside: Sequence[str]) -> list[str]:
    """Write the script that makes the tree; return the command that runs it.

    ``outside`` and ``inside`` begin commands that run as root beside the tree and in it.
    """
    after = base.folder / "after.sh"
    after.write_text(after_bootstrap(base.bootstrap))
    words = {
        "outside": shlex.join(outside),
        "inside": shlex.join(inside),
        "settings": f"container=lxc SOURCE_DATE_EPOCH={EPOCH}",
        "tree": shlex.quote(str(base.tree)),
        "script": shlex.quote(str(after)),
        "first": shlex.join(_first_stage(base)),
    }
    if base.bootstrap.by_debootstrap:
        base.tree.mkdir()
        base.tree.chmod(0o755)
        begin = _STAGES.format(**words)
    else:
        begin = script_text(fill_commands(base, as_root=()))
    script = base.folder / "base.sh"
    script.write_text(begin + _AFTER.format(**words))
    return ["bash", str(script)]


def _first_stage(base: Base) -> list[str]:
    options = ["--foreign", "--variant=minbase", f"--exclude={_LEFT_OUT}"]
    if base.bootstrap.include:
        options.append(f"--include={','.join(base.bootstrap.include)}")
    options.append(f"--keyring={DEBIAN_KEYRING}")
    return ["debootstrap", *options, base.bootstrap.release, str(base.tree), base.mirror]
