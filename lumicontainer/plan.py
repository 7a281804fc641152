"""Turn a resolved recipe into steps: each a program in shell, and a key that names its content.

A key hashes the key of the step before, the inputs, and the program itself; nothing that leaves
the content as it is (summaries, checks, host, time, job count) is in any of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumicontainer import shell
from lumicontainer.load import SCRIPT
from lumicontainer.model import Bootstrap, LayerFile, Source, Value
from lumicontainer.resolve import Resolved, ResolvedLayer

HOME = "/opt/lumicontainer"
STAGE = f"{HOME}/.stage"
"""In the image itself, so that neither the host's /tmp nor its size matters; removed again."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SEAL = "lumicontainer"
"""The last step: it bakes in lumi-entry and the record of what the image holds."""

_APT = "apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0"

# /etc/hosts and /etc/resolv.conf are mount points, which an unprivileged build (PRoot) and a
# read-only image cannot make later. Apt's own example of sources is the distribution's default:
# the mirror of the build belongs to its site.
_SEAL = f"""\
if ! command -v python3 >/dev/null; then
    echo "error: the image has no python3, which lumi-entry needs; mend: add the layer 'python'" >&2
    exit 1
fi
for file in /etc/hosts /etc/resolv.conf; do
    [ -e "$file" ] || : >"$file"
done
: >/etc/hostname
if [ -e /usr/share/doc/apt/examples/sources.list ]; then
    cp /usr/share/doc/apt/examples/sources.list /etc/apt/sources.list
fi
rm -rf /var/log/bootstrap.log /var/log/alternatives.log /var/log/apt /var/log/dpkg.log /debootstrap
mkdir -p {HOME}/bin
mv {HOME}/lib/lumi_inside/lumi-entry {HOME}/bin/lumi-entry
ln -sfn {HOME}/bin/lumi-entry /usr/local/bin/lumi-entry
python3 -I -m compileall -q --invalidation-mode unchecked-hash {HOME}/lib
PYTHONPATH={HOME}/lib python3 -m lumi_inside.inventory >{HOME}/packages.json
"""


@dataclass(frozen=True)
class Step:
    """Hold one keyed step of a build; ``program`` is complete and runs under bash."""

    name: str
    key: str
    program: str
    inputs: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """Hold what is to be done, in order, and what is constant in the image afterwards."""

    resolved: Resolved
    bootstrap: Bootstrap
    base_key: str
    steps: tuple[Step, ...]
    environment: Mapping[str, str]
    path: tuple[str, ...]


def make_plan(resolved: Resolved, inside: Iterable[LayerFile]) -> Plan:
    """Plan a resolved recipe; ``inside`` are the files of the programs that are baked in."""
    base = {
        "agent": resolved.bootstrap.agent,
        "release": resolved.bootstrap.release,
        "include": resolved.bootstrap.include,
    }
    base_key = parent = _key({"base": base})
    environment: dict[str, str] = {}
    path: tuple[str, ...] = ()
    steps = []
    for layer in resolved.included():
        environment = {**environment, **layer.content.environment}
        path = layer.content.path + path
        step = _layer_step(layer, parent, environment=environment, path=path)
        if step is not None:
            steps.append(step)
            parent = step.key
    steps.append(_seal_step(resolved, parent, inside=inside, path=path))
    return Plan(resolved, resolved.bootstrap, base_key, tuple(steps), environment, path)


def search_path(path: Iterable[str]) -> str:
    """Return the value of PATH while a step runs."""
    return ":".join((*path, SYSTEM_PATH))


def requirement(source: Source, version: Value) -> str:
    """Return a source as a line of pip's requirements, with its hash where it is known."""
    line = f"{source.python}=={version}"
    return f"{line} --hash=sha256:{source.sha256}\n" if source.sha256 else f"{line}\n"


def _key(inputs: Mapping[str, Any]) -> str:
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digests(files: Iterable[LayerFile]) -> dict[str, list[str]]:
    return {
        file.name: [f"{file.mode:o}", hashlib.sha256(file.content).hexdigest()] for file in files
    }


def _layer_step(
    layer: ResolvedLayer, parent: str, *, environment: Mapping[str, str], path: tuple[str, ...]
) -> Step | None:
    content, values = layer.content, layer.values()
    files = list(layer.files)
    if content.sources:
        version = values.get("version", "")
        lines = "".join(requirement(source, version) for source in content.sources)
        files.append(LayerFile("requirements.txt", 0o644, lines.encode()))
    if not (files or content.apt or content.python):
        return None
    inputs = {
        "parent": parent,
        "values": values,
        "environment": environment,
        "path": path,
        "apt": content.apt,
        "python": content.python,
        "files": _digests(files),
    }
    exported = shell.exports({**environment, "PATH": search_path(path), **values})
    work = _packages(content.apt, content.python)
    if any(file.name == SCRIPT for file in files):
        work += f"(cd {STAGE}/layer && bash ./{SCRIPT})\n"
    program = _program(layer.name, files, exported=exported, work=work)
    return _step(layer.name, program, inputs)


def _seal_step(
    resolved: Resolved, parent: str, *, inside: Iterable[LayerFile], path: tuple[str, ...]
) -> Step:
    files = list(record_files(resolved))
    files += [LayerFile(f"lib/lumi_inside/{f.name}", f.mode, f.content) for f in inside]
    inputs = {"parent": parent, "path": path, "files": _digests(files)}
    exported = shell.exports({"PATH": search_path(path)})
    work = shell.write_files(HOME, files) + _SEAL
    return _step(SEAL, _program(SEAL, [], exported=exported, work=work), inputs)


def record_files(resolved: Resolved) -> Iterable[LayerFile]:
    """Yield what the image tells of itself: recipe, resolved values, checks of its layers."""
    yield LayerFile("recipe.yaml", 0o644, resolved.recipe.text.encode())
    text = json.dumps(record(resolved), indent=2, ensure_ascii=False) + "\n"
    yield LayerFile("resolved.json", 0o644, text.encode())
    for layer in resolved.included():
        for check in layer.checks:
            name = check.name.removeprefix("checks/")
            yield LayerFile(f"checks/{layer.name}/{name}", check.mode, check.content)


def record(resolved: Resolved) -> dict[str, Any]:
    """Return the resolved values as plain data; no path of the build machine is in it."""
    layers = {
        layer.name: {
            "parameters": {s.name: s.value for s in layer.settings if s.name != "version"},
            "origins": {s.name: s.origin for s in layer.settings},
            "version": layer.values().get("version"),
            "environment": dict(layer.content.environment),
        }
        for layer in resolved.included()
    }
    return {
        "recipe": resolved.recipe.name,
        "summary": resolved.recipe.summary,
        "platform": {
            "name": resolved.platform.name,
            "accelerator": resolved.platform.accelerator,
        },
        "base": {"agent": resolved.bootstrap.agent, "release": resolved.bootstrap.release},
        "layers": layers,
        "omitted": {layer.name: layer.omitted for layer in resolved.layers if layer.omitted},
    }


def _step(name: str, program: str, inputs: Mapping[str, Any]) -> Step:
    digest = hashlib.sha256(program.encode()).hexdigest()
    return Step(name, _key({**inputs, "program": digest}), program, inputs)


def _packages(apt: tuple[str, ...], python: tuple[str, ...]) -> str:
    text = ""
    if apt:
        text += f"{_APT} update\n{_APT} install --no-install-recommends {' '.join(apt)}\n"
    if python:
        quoted = shell.words(python)
        text += f"python3 -m pip install {quoted}\n"
    return text


def _program(name: str, files: list[LayerFile], *, exported: str, work: str) -> str:
    staged = [LayerFile("values.sh", 0o644, exported.encode())]
    staged += [LayerFile(f"layer/{file.name}", file.mode, file.content) for file in files]
    return (
        f"# layer: {name}\n(\nset -euo pipefail\numask 022\n"
        f"rm -rf {STAGE}\nmkdir -p {STAGE}/home {STAGE}/tmp\n"
        f"{shell.write_files(STAGE, staged)}"
        f"export HOME={STAGE}/home TMPDIR={STAGE}/tmp DEBIAN_FRONTEND=noninteractive\n"
        "export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore\n"
        'export jobs="${LUMICONTAINER_JOBS:-$(nproc)}"\n'
        f". {STAGE}/values.sh\n{work}"
        f"cd /\nrm -rf {STAGE} /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old\n)\n"
    )


def read_inside(folder: Path) -> tuple[LayerFile, ...]:
    """Read the programs that are baked into images."""
    files = (p for p in sorted(folder.iterdir()) if p.is_file() and not p.name.startswith("."))
    return tuple(
        LayerFile(p.name, 0o644 if p.suffix == ".py" else 0o755, p.read_bytes()) for p in files
    )
