"""Pin the versions that apt would install in an image, by asking it on the image's base."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lumicontainer.build import pipeline
from lumicontainer.build.builder import Builder
from lumicontainer.build.cache.store import Cache
from lumicontainer.build.layers import Run, base_layer
from lumicontainer.build.workspace import LOCK, remove_tree, workspace
from lumicontainer.core import shell
from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.cleanup import PACKAGES
from lumicontainer.core.plan.packages import APT_GET
from lumicontainer.core.plan.plan import HOME, Plan, adding_repositories
from lumicontainer.core.resolve.inputs import DEBOOTSTRAP
from lumicontainer.engines import find_engine
from lumicontainer.host.site import Site
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.progress import Progress

_INSTALLED = re.compile(r"(?m)^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ")
_PROGRAMS = f"{HOME}/.repositories"
_ASK = """\
have=()
add() {{
    # What a repository is added with comes of the layers before.
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
    """By layer: the packages that apt would add for it, with dependencies. A layer that apt refuses
    is missing."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By layer: the message of apt where it refuses the layer."""
    names: Sequence[str] = ()
    """All packages of the sources, where apt refuses a layer."""


@dataclass(frozen=True)
class Wanted:
    """Hold the apt packages of a layer, and the program that adds its repositories, if any."""

    packages: Sequence[str]
    repositories: str = ""


def ask(plan: Plan, site: Site, progress: Progress) -> Answers:
    """Build the base of a plan, and ask its apt for the packages of the layers.

    debootstrap builds its base from the current packages of the mirror, never from the cache.
    Raises the errors of a build.
    """
    pipeline.check_host(plan)
    fresh = plan.bootstrap.agent == DEBOOTSTRAP
    store, engine = Cache(cache_root()).open(), find_engine()
    with workspace(plan.resolved.recipe.name + LOCK) as place:
        builder = Builder(plan, engine, lambda: site, progress, store, place, jobs=1, fresh=fresh)
        try:
            return asyncio.run(_ask(builder))
        finally:
            # A tree that a failed build left is worth more than that of a base.
            remove_tree(place.sandbox)


async def _ask(builder: Builder) -> Answers:
    wanted = {
        layer.name: Wanted(layer.content.apt, adding_repositories(layer))
        for layer in builder.plan.resolved.included()
        if layer.content.apt or layer.content.apt_repositories
    }
    base = await base_layer(builder)
    with builder.progress.step("apt") as task:
        run = Run(builder, "apt", (base,), task, apart=True)
        await run.program(program(list(wanted.values())))
        answers = {path.name: path.read_bytes() for path in run.left()}
        base_list = answers["base"]
        said = {
            layer: answers[str(number)].decode()
            for number, layer in enumerate(wanted)
            if str(number) in answers
        }
        refused = {
            layer: answers[f"{number}.why"].decode("utf-8", "replace")
            for number, layer in enumerate(wanted)
            if f"{number}.why" in answers
        }
        builder.place.drop_log(run.name)
        await asyncio.to_thread(shutil.rmtree, run.wheels)
        await asyncio.to_thread(remove_tree, run.root)
    there = dict(line.split("=", 1) for line in base_list.decode().splitlines())
    names = answers.get("names", b"").decode().split()
    digest = hashlib.sha256(base_list).hexdigest()
    return Answers(digest, there, closures(said), refused, names)


def program(wanted: Sequence[Wanted]) -> str:
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


def closures(said: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return, by layer, the versions by name that each simulation of apt adds to those before."""
    known: dict[str, str] = {}
    result = {}
    for layer, text in said.items():
        found = dict(_INSTALLED.findall(text))
        result[layer] = {name: v for name, v in found.items() if known.get(name) != v}
        known |= found
    return result
