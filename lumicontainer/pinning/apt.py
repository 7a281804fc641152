"""Pin the versions that apt would install in an image, by asking it on the image's base."""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.building.layers.base import keep_base, make_base_layer
from lumicontainer.constants import HOME
from lumicontainer.core import shell
from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.base import PACKAGES
from lumicontainer.core.plan.layer_step import APT_GET, adding_repositories
from lumicontainer.core.plan.plan import with_new_base
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.shipped import APT_FILES
from lumicontainer.core.yaml.validators import APT_PIN
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.site import Site
from lumicontainer.image.records import PACKAGE, VERSION
from lumicontainer.pinning.container import Program, answers
from lumicontainer.sandbox.builder import Builder, Stack
from lumicontainer.system.terminal.progress import Progress

_INSTALLED = re.compile(r"(?m)^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ")
_LISTED = re.compile(rf"({PACKAGE.form})=({VERSION.form})")
_HASHED = re.compile(rf"(?m)^({APT_PIN}) ([0-9a-f]{{64}})$")
_PROGRAMS = f"{HOME}/.repositories"
_SCRIPT = Path(__file__).parent / "scripts/ask-apt.sh"


class Answers(NamedTuple):
    """Hold the packages of a base, and the answers of its apt for the layers."""

    base: str
    """The sha256 of the list of its packages."""
    present: Mapping[str, str]
    """Their versions by name."""
    layers: Mapping[str, Mapping[str, str]] = {}
    """By layer: the packages that apt would add, with dependencies; none for a refused layer."""
    hashes: Mapping[str, str] = {}
    """The sha256 of the files of these, by name=version."""
    refused: Mapping[str, str] = {}
    """By layer: the message with which apt refuses it."""
    names: Sequence[str] = ()
    """All packages of the sources, where apt refuses a layer."""

    def pin(self, name: str, version: str) -> str:
        """Return the pin of a package; it has no hash if the base or no list has the package."""
        pin = f"{name}={version}"
        return f"{pin} --hash=sha256:{self.hashes[pin]}" if pin in self.hashes else pin


class LayerPackages(NamedTuple):
    """Hold the apt packages of a layer, and the program that adds its repositories, if any."""

    packages: Sequence[str]
    repositories: str = ""


def ask(plan: Plan, site: Site, progress: Progress) -> Answers:
    """Build the base of a plan, and ask its apt for the packages of the layers.

    debootstrap builds its base from the current packages of the mirror, never from the cache.
    Builds go on with the base that they have.
    """
    fresh = plan.bootstrap.by_debootstrap
    packages = {
        layer.name: LayerPackages(layer.content.apt, adding_repositories(layer))
        for layer in plan.resolved.included()
        if layer.content.apt or layer.content.apt_repositories
    }

    async def base(builder: Builder) -> Stack:
        return (await make_base_layer(builder),)

    async def keep(builder: Builder, stack: Stack, files: Mapping[str, bytes]) -> None:
        await keep_base(builder, stack[0], _digest(files))

    text = program(list(packages.values()))
    asking = Program("apt", text, base, fresh, keep if fresh else None)
    files = answers(with_new_base(plan) if fresh else plan, site, progress, asking)
    texts = {name: content.decode("utf-8", "replace") for name, content in files.items()}
    printed = {each: texts[str(n)] for n, each in enumerate(packages) if str(n) in texts}
    refused = {each: texts[f"{n}.why"] for n, each in enumerate(packages) if f"{n}.why" in texts}
    present = read_present(texts.get("base", ""))
    names = texts.get("names", "").split()
    lists = (text for name, text in texts.items() if name.endswith(".files"))
    hashes = dict(pair for each in lists for pair in _HASHED.findall(each))
    return Answers(_digest(files), present, closures(printed), hashes, refused, names)


def _digest(files: Mapping[str, bytes]) -> str:
    """Return the sha256 of the list of a base's packages."""
    return hashlib.sha256(files.get("base", b"")).hexdigest()


def read_present(text: str) -> dict[str, str]:
    """Return the versions of the packages of a base, by name, as dpkg of the base lists them.

    Raises ``InputError`` for another answer.
    """
    rows = [_LISTED.fullmatch(line) for line in text.splitlines()]
    if not rows or not all(rows):
        what, hint = "the base image gave an invalid list of its packages", "use another base image"
        odd = next((line for line, row in zip(text.splitlines(), rows, strict=True) if not row), "")
        raise InputError(Problem(what, why=f"{odd!a:.100}" if odd else "it is empty", hint=hint))
    return {row[1]: row[2] for row in rows if row}


def program(layers: Sequence[LayerPackages]) -> str:
    """Return the program that lists the packages of a base, and those that apt adds for each layer.

    Apt adds the packages of a layer to the packages of the layers before it. The answers lie in the
    folder for wheels, which the host reads. If a repository cannot be added, apt does not find its
    packages.
    """
    text = f'set -euo pipefail\nanswers="$LUMICONTAINER_WHEELS"\n{PACKAGES} >"$answers/base"\n'
    if layers:
        text += f"apt_files={shlex.quote(APT_FILES.read_text())}\n"
        text += f'apt_get() {{ {APT_GET} "$@"; }}\n{_SCRIPT.read_text()}'
    for number, each in enumerate(layers):
        if each.repositories:
            file = LayerFile(f"{number}.sh", 0o644, each.repositories.encode())
            text += shell.write_files(_PROGRAMS, [file])
            text += f"add {_PROGRAMS}/{number}.sh || true\n"
        if each.packages:
            text += f"ask {number} {shlex.join(each.packages)}\n"
    return text


def closures(printed: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return, by layer, the versions by name that each simulation of apt adds to those before."""
    known: dict[str, str] = {}
    result = {}
    for layer, text in printed.items():
        versions = dict(_INSTALLED.findall(text))
        result[layer] = {name: v for name, v in versions.items() if known.get(name) != v}
        known |= versions
    return result
