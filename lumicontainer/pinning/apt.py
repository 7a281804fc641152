"""Pin the versions that apt would install in an image, by asking it on the image's base."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lumicontainer.build.builder import Builder, Stack
from lumicontainer.build.layers import base_layer
from lumicontainer.core import shell
from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.cleanup import PACKAGES
from lumicontainer.core.plan.packages import APT_GET
from lumicontainer.core.plan.plan import HOME, Plan, adding_repositories
from lumicontainer.core.resolve.inputs import DEBOOTSTRAP
from lumicontainer.host.site import Site
from lumicontainer.pinning.container import Program, answers
from lumicontainer.system.terminal.progress import Progress

_INSTALLED = re.compile(r"(?m)^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ")
_PROGRAMS = f"{HOME}/.repositories"
_ASK = """\
have=()
add() {{
    # The script of a repository may use packages of the layers before.
    {apt} install --no-install-recommends "${{have[@]}}"
    have=()
    bash "$1" && update
}}
update() {{
    local status=0
    {apt} update >"$answers/update" 2>&1 || status="$?"
    cat "$answers/update"
    return "$status"
}}
ask() {{
    local number="$1"
    shift
    if {apt} install --simulate --no-install-recommends "${{have[@]}}" "$@" \\
        >"$answers/$number" 2>"$answers/$number.why"; then
        have+=("$@")
        rm "$answers/$number.why"
    else
        rm "$answers/$number"
        cat "$answers/update" >>"$answers/$number.why"
        apt-cache pkgnames >"$answers/names"
        cat "$answers/$number.why" >&2
    fi
}}
"""


@dataclass(frozen=True)
class Answers:
    """Hold the packages of a base, and the answers of its apt for the layers."""

    base: str
    """The sha256 of the list of its packages."""
    there: Mapping[str, str]
    """Their versions by name."""
    layers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By layer: the packages that apt would add, with dependencies; none for a refused layer."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By layer: the message of apt where it refuses the layer."""
    names: Sequence[str] = ()
    """All packages of the sources, where apt refuses a layer."""


@dataclass(frozen=True)
class LayerPackages:
    """Hold the apt packages of a layer, and the program that adds its repositories, if any."""

    packages: Sequence[str]
    repositories: str = ""


def ask(plan: Plan, site: Site, progress: Progress) -> Answers:
    """Build the base of a plan, and ask its apt for the packages of the layers.

    debootstrap builds its base from the current packages of the mirror, never from the cache.
    Raises the errors of a build.
    """
    wanted = {
        layer.name: LayerPackages(layer.content.apt, adding_repositories(layer))
        for layer in plan.resolved.included()
        if layer.content.apt or layer.content.apt_repositories
    }

    async def base(builder: Builder) -> Stack:
        return (await base_layer(builder),)

    asking = Program("apt", program(list(wanted.values())))
    fresh = plan.bootstrap.agent == DEBOOTSTRAP
    files = answers(plan, site, progress, program=asking, layers=base, fresh=fresh)
    found = {name: content.decode("utf-8", "replace") for name, content in files.items()}
    printed = {each: found[str(n)] for n, each in enumerate(wanted) if str(n) in found}
    refused = {each: found[f"{n}.why"] for n, each in enumerate(wanted) if f"{n}.why" in found}
    there = dict(line.split("=", 1) for line in found["base"].splitlines())
    names = found.get("names", "").split()
    digest = hashlib.sha256(files["base"]).hexdigest()
    return Answers(digest, there, closures(printed), refused, names)


def program(wanted: Sequence[LayerPackages]) -> str:
    """Return the program that lists the packages of a base, and those that apt adds for each layer.

    Apt adds the packages of a layer to those of the layers before it. The answers lie in the
    folder for wheels, which the host reads. Where a repository cannot be added, apt does not find
    its packages.
    """
    text = f'set -euo pipefail\nanswers="$LUMICONTAINER_WHEELS"\n{PACKAGES} >"$answers/base"\n'
    if wanted:
        text += _ASK.format(apt=APT_GET) + "update\n"
    for number, each in enumerate(wanted):
        if each.repositories:
            file = LayerFile(f"{number}.sh", 0o644, each.repositories.encode())
            text += shell.write_files(_PROGRAMS, [file])
            text += f"add {_PROGRAMS}/{number}.sh || true\n"
        if each.packages:
            text += f"ask {number} {shell.words(each.packages)}\n"
    return text


def closures(printed: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return, by layer, the versions by name that each simulation of apt adds to those before."""
    known: dict[str, str] = {}
    result = {}
    for layer, text in printed.items():
        found = dict(_INSTALLED.findall(text))
        result[layer] = {name: v for name, v in found.items() if known.get(name) != v}
        known |= found
    return result
