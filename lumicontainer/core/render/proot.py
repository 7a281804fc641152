"""Make a definition that users without user namespaces can build, as on LUMI: with PRoot.

Such a build of SingularityCE pulls its base, runs no %pre and no %setup, and has one id: PRoot
(ptrace) makes programs believe that they are root (sylabs/singularity pull request 879).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumicontainer.core.model import Bootstrap, Platform

_NAME = "RECIPE"
_STEP = Path(__file__).parents[2] / "step"


def command(platform: Platform, recipe: str) -> str:
    """Return the line by which users of a platform build the definition of a recipe."""
    return platform.proot.replace(_NAME, recipe)


def pulled(bootstrap: Bootstrap) -> Bootstrap:
    """Return a base as an image that is pulled; debootstrap needs root."""
    return bootstrap._replace(agent="docker", include=())


def around(bootstrap: Bootstrap, programs: Sequence[str]) -> tuple[str, ...]:
    """Return the programs of a definition with what goes before and after them."""
    included = (_included(bootstrap.include),) if bootstrap.include else ()
    return (_script("etc-begin.sh"), *included, *programs, _script("etc-end.sh"))


def _included(packages: Sequence[str]) -> str:
    """Return the program that installs what debootstrap would have."""
    apt = "apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0"
    return f"""\
# base
(
set -euo pipefail
umask 022
export DEBIAN_FRONTEND=noninteractive
{apt} update
{apt} install --no-install-recommends {" ".join(packages)}
rm -rf /var/lib/apt/lists/*
)
"""


def _script(name: str) -> str:
    return f"# {name}\n(\n{(_STEP / name).read_text()})\n"
