"""Plan a resolved recipe as steps: each has a shell program, and a key that names its content.

A key hashes the key of the step before, the inputs and the program. It covers nothing that leaves
the content unchanged: summaries, checks, host, time, job count.

A layer with a ``compile.sh`` has two programs. One compiles wheels on the layers that it requires;
the other installs them on all layers below. A change of a layer between keeps the wheels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.core import shell
from lumicontainer.core.model import Bootstrap, LayerFile, Packages, SdistSource, Value
from lumicontainer.core.plan import packages
from lumicontainer.core.plan.cleanup import CLEAN, after_bootstrap, remove_traces
from lumicontainer.core.plan.finish import finish_files, finish_text, finishing
from lumicontainer.core.plan.records import record_files
from lumicontainer.core.resolve.inputs import DEBOOTSTRAP
from lumicontainer.core.resolve.resolve import Resolved, ResolvedLayer
from lumicontainer.core.schema.sources import fetch_files, fetch_text, fetched, label_of
from lumicontainer.core.shipped import programs
from lumicontainer.core.yaml.validators import FINISH

HOME = "/opt/lumicontainer"
STAGE = f"{HOME}/.stage"
"""In the image itself, so that neither the host's /tmp nor its size matters; removed again."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WHEELS = f"{HOME}/.wheels"
"""Where a plain build keeps the wheels between compiling and installing; removed again."""
MANIFEST = "sha256sums"
"""What every file below HOME is, in the form of sha256sum."""
SEAL = "lumicontainer"
"""The last step: it bakes in lumi-entry and the record of what the image holds."""
BASE = "base"
"""The name of what stands below the first step."""
ASSEMBLY = 2
"""Counts the ways in which layers were made of steps: another way makes other keys."""
PROGRAMS = ("lumi-entry", "lumi-verify")
"""What of the baked-in files is put on PATH."""
VERIFY = f"{HOME}/bin/lumi-verify"
EPOCH = 1_735_689_600
"""The time (seconds, start of 2025) that every file of an image has, and that tools such as pip
and gzip take for the present: two builds at two moments give the same bytes."""
DEFAULTS: Mapping[str, str] = {"PYTHONNOUSERSITE": "1"}
"""What every image sets where neither a layer nor the user does: packages in ~/.local, which
containers see, would hide those of the image."""
MAX_SECTION = 65_000
"""Apptainer reads a section of a definition into 64 KiB (bufio.Scanner: token too long), so each
step has sections of its own; the engine runs them one after the other."""

# /etc/hosts and /etc/resolv.conf are mount points, which an unprivileged build (PRoot) and a
# read-only image cannot make later.
# The programs' first line asks PATH for python3; in an image it is known, and env's start is saved.
# No engine lets a program of an image become another user, so su and its like keep no mark that
# would work where the files are copied out. Only in two folders: by PRoot others are the host's.
_SEAL_FIRST = """\
if ! command -v python3 >/dev/null; then
    echo "error: the image has no python3, which lumi-entry needs; hint: add the layer 'python'" >&2
    exit 1
fi
for file in /etc/hosts /etc/resolv.conf; do
    [ -e "$file" ] || : >"$file"
done
"""
_SEAL = f"""\
mkdir -p {HOME}/bin
for program in {" ".join(PROGRAMS)}; do
    mv {HOME}/lib/lumi_inside/$program {HOME}/bin/$program
    sed -i "1s|.*|#!$(command -v python3) -ISB|" {HOME}/bin/$program
    ln -sfn {HOME}/bin/$program /usr/local/bin/$program
done
python3 -I -m compileall -q --invalidation-mode unchecked-hash {HOME}/lib
PYTHONPATH={HOME}/lib python3 -m lumi_inside.image.venvs
PYTHONPATH={HOME}/lib python3 -m lumi_inside.image.inventory >{HOME}/packages.json
find /usr /opt -xdev -type f -perm /6000 -exec chmod ug-s {{}} +
(
    cd {HOME}
    find . -name '.?*' -prune -o -type f ! -name {MANIFEST} -print0 |
        LC_ALL=C sort --zero-terminated | xargs --null sha256sum
) >{HOME}/{MANIFEST}
"""


class Compile(NamedTuple):
    """Hold the keyed program that compiles a layer's wheels on the tree whose key is ``parent``."""

    name: str
    key: str
    program: str
    inputs: Mapping[str, Any]
    parent: str
    secrets: tuple[str, ...] = ()


class Step(NamedTuple):
    """Hold one keyed step of a build; ``program`` is complete and runs under bash.

    It expects the wheels of ``compiled`` in the folder that LUMICONTAINER_WHEELS names. A plain
    build runs ``documents`` in its stead, one after the other, which compile too.
    """

    name: str
    key: str
    program: str
    inputs: Mapping[str, Any]
    documents: tuple[str, ...]
    compiled: Compile | None = None
    secrets: tuple[str, ...] = ()
    """The ids of the files that it finds in the folder that LUMICONTAINER_SECRETS names."""


class Plan(NamedTuple):
    """Hold what is to be done, in order, and what is constant in the image afterwards."""

    resolved: Resolved
    bootstrap: Bootstrap
    base_key: str
    base_inputs: Mapping[str, Any]
    steps: tuple[Step, ...]
    environment: Mapping[str, str]
    path: tuple[str, ...]


def make_plan(resolved: Resolved, inside: Iterable[LayerFile]) -> Plan:
    """Plan a resolved recipe; ``inside`` are the files of the programs that are baked in."""
    base = {
        "agent": resolved.bootstrap.agent,
        "release": resolved.bootstrap.release,
        "include": resolved.bootstrap.include,
        "image": "" if resolved.bootstrap.agent == DEBOOTSTRAP else resolved.bootstrap.image,
        "assembly": ASSEMBLY,
        "program": hashlib.sha256(after_bootstrap(resolved.bootstrap).encode()).hexdigest(),
    }
    stack = [_Parent(BASE, _key({"base": base}), {}, ())]
    steps = []
    for layer in resolved.included():
        parent = stack[-1]
        own = _Parent(
            layer.name,
            parent.key,
            {**parent.environment, **layer.content.environment},
            layer.content.path + parent.path,
        )
        step = _layer_step(layer, own, _required(layer, stack))
        if step is not None:
            steps.append(step)
            own = own._replace(key=step.key)
        stack.append(own)
    top = stack[-1]
    steps.append(_seal_step(resolved, top.key, inside=inside, path=top.path))
    return Plan(
        resolved=resolved,
        bootstrap=resolved.bootstrap,
        base_key=stack[0].key,
        base_inputs=base,
        steps=tuple(steps),
        environment={**DEFAULTS, **top.environment},
        path=top.path,
    )


class _Parent(NamedTuple):
    """Hold what a step finds: the key of the tree, the environment and the search path."""

    name: str
    key: str
    environment: Mapping[str, str]
    path: tuple[str, ...]


def _required(layer: ResolvedLayer, stack: Sequence[_Parent]) -> _Parent:
    """Return the lowest tree that has all that a layer requires."""
    found = [parent for parent in stack if parent.name in layer.requires]
    return found[-1] if found else stack[0]


def search_path(path: Iterable[str]) -> str:
    """Return the value of PATH while a step runs."""
    return ":".join((*path, SYSTEM_PATH))


def requirement(source: SdistSource, version: Value) -> str:
    """Return a source as a line of pip's requirements, with its hash where it is known."""
    line = f"{source.sdist}=={version}"
    return f"{line} --hash=sha256:{source.sha256}\n" if source.sha256 else f"{line}\n"


def _key(inputs: Mapping[str, Any]) -> str:
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _digests(files: Iterable[LayerFile]) -> dict[str, list[str]]:
    return {
        file.name: [f"{file.mode:o}", hashlib.sha256(file.content).hexdigest()] for file in files
    }


def _layer_step(layer: ResolvedLayer, own: _Parent, required: _Parent) -> Step | None:
    files = [file for file in layer.files if file.name != FINISH]
    python = [each for each in layer.content.sources if isinstance(each, SdistSource)]
    if python:
        version = layer.values().get("version", "")
        lines = "".join(requirement(source, version) for source in python)
        files.append(LayerFile("requirements.txt", 0o644, lines.encode()))
    content = layer.content
    if not (files or content.apt or content.python or packages.locked_files(content)):
        return None
    if not any(file.name == layer.compile for file in files):
        program = _work(layer, files, own, script=layer.script)
        return _step(layer.name, program, _inputs(layer, files, own), layer.secrets)
    compiled = _compile(layer, [f for f in files if f.name != layer.script], required)
    files = [file for file in files if file.name != layer.compile]
    program = _work(layer, files, own, script=layer.script)
    inputs = {**_inputs(layer, files, own), "compiled": compiled.key}
    step = _step(layer.name, program, inputs, layer.secrets)
    install = _work(layer, files, own, script=layer.script, installs=False)
    document = f"{compiled.program}{install}rm -rf {WHEELS}\n"
    return step._replace(documents=(document,), compiled=compiled)


def _compile(layer: ResolvedLayer, files: list[LayerFile], required: _Parent) -> Compile:
    own = required._replace(
        environment={**required.environment, **layer.content.environment},
        path=layer.content.path + required.path,
    )
    program = _work(layer, files, own, script=layer.compile)
    inputs = _with_program({**_inputs(layer, files, own), "makes": "wheels"}, program)
    return Compile(layer.name, _key(inputs), program, inputs, required.key, layer.secrets)


def _inputs(layer: ResolvedLayer, files: list[LayerFile], parent: _Parent) -> dict[str, Any]:
    sources = [label_of(each) for each in fetched(layer.content.sources, files)]
    return {
        **({"sources": sources} if sources else {}),
        "parent": parent.key,
        "values": layer.values(),
        "environment": parent.environment,
        "path": parent.path,
        "apt": layer.content.apt,
        "python": layer.content.python,
        **packages.locked_inputs(layer.content),
        "files": _digests(files),
    }


def _work(
    layer: ResolvedLayer,
    files: list[LayerFile],
    parent: _Parent,
    *,
    script: str,
    installs: bool = True,
) -> str:
    """Return the program that installs a layer's packages and runs a script, if it is there."""
    variables = {**parent.environment, "PATH": search_path(parent.path), **layer.values()}
    sources = fetched(layer.content.sources, files)
    fetch = fetch_text(sources, STAGE)
    install = packages.install(layer.content, STAGE) if installs else ""
    # A repository's key is fetched; all else is fetched by what the layer itself may install.
    first, then = (fetch, install) if layer.content.apt_repositories else (install, fetch)
    work = _require_secrets(layer.secrets) + first + then
    if any(file.name == script for file in files):
        work += f"(cd {STAGE}/layer && bash ./{script})\n"
    staged = [LayerFile("values.sh", 0o644, shell.exports(variables).encode())]
    staged += packages.locked_files(layer.content) if installs else ()
    staged += fetch_files(sources)
    staged += [LayerFile(f"layer/{file.name}", file.mode, file.content) for file in files]
    return _program(layer.name, staged, work=work)


def adding_repositories(layer: ResolvedLayer) -> str:
    """Return the program that adds the repositories of a layer and does no more, if it has any."""
    if not layer.content.apt_repositories:
        return ""
    content = layer.content._replace(packages=Packages(), locked=(), indexed={})
    alone = layer._replace(content=content, secrets=())
    own = _Parent(layer.name, "", content.environment, ())
    return _work(alone, list(layer.files), own, script="")


def _seal_step(
    resolved: Resolved, parent: str, *, inside: Iterable[LayerFile], path: tuple[str, ...]
) -> Step:
    files = list(record_files(resolved))
    files += [LayerFile(f"lib/lumi_inside/{f.name}", f.mode, f.content) for f in inside]
    layers = finishing(resolved)
    finished = {name: _digests(each) for name, each in layers.items()}
    inputs = {"parent": parent, "path": path, "files": _digests(files)}
    inputs |= {"finish": finished} if finished else {}
    work = finish_text(layers, STAGE) + _SEAL_FIRST + remove_traces(resolved.bootstrap) + _SEAL
    exported = LayerFile("values.sh", 0o644, shell.exports({"PATH": search_path(path)}).encode())

    def program(part: Sequence[LayerFile], work: str = "") -> str:
        written = shell.write_files(HOME, part)
        staged = finish_files(layers) if work else []
        return _program(SEAL, [exported, *staged], work=written + work)

    *firsts, last = _parts(files, MAX_SECTION - len(program([], work).encode()))
    documents = (*(program(part) for part in firsts), program(last, work))
    return _step(SEAL, program(files, work), inputs)._replace(documents=documents)


def _parts(files: Iterable[LayerFile], limit: int) -> list[list[LayerFile]]:
    """Spread files, in their order, over parts of ``limit`` bytes of shell text; at least one.

    The text that writes several files is not longer than the texts that write each of them.
    """
    parts: list[list[LayerFile]] = [[]]
    taken = 0
    for file in files:
        size = len(shell.write_files(HOME, [file]).encode())
        if parts[-1] and taken + size > limit:
            parts.append([])
            taken = 0
        parts[-1].append(file)
        taken += size
    return parts


def _with_program(inputs: Mapping[str, Any], program: str) -> dict[str, Any]:
    return {**inputs, "program": hashlib.sha256(program.encode()).hexdigest()}


def _step(
    name: str, program: str, inputs: Mapping[str, Any], secrets: tuple[str, ...] = ()
) -> Step:
    complete = _with_program(inputs, program)
    return Step(name, _key(complete), program, complete, (program,), secrets=secrets)


def _require_secrets(secrets: Iterable[str]) -> str:
    """Return shell text that ends the step where a secret is missing, as in a plain build."""
    text = ""
    for secret in secrets:
        hint = f"lumicontainer build --secret id={secret},src=FILE"
        message = shell.words([f"error: the secret '{secret}' is not here; hint: {hint}"])
        text += f'[ -r "$secrets/{secret}" ] || {{ echo {message} >&2; exit 1; }}\n'
    return text


def _program(name: str, staged: Sequence[LayerFile], *, work: str) -> str:
    """Return a complete program; the file ``values.sh`` is among what it stages."""
    return (
        f"# layer: {name}\n(\nset -euo pipefail\numask 022\n"
        f"rm -rf {STAGE}\nmkdir -p {STAGE}/home {STAGE}/tmp\n"
        f"{shell.write_files(STAGE, staged)}"
        f"export HOME={STAGE}/home TMPDIR={STAGE}/tmp DEBIAN_FRONTEND=noninteractive\n"
        "export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore\n"
        f"export SOURCE_DATE_EPOCH={EPOCH}\n"
        'export jobs="${LUMICONTAINER_JOBS:-$(nproc)}"\n'
        f'export wheels="${{LUMICONTAINER_WHEELS:-{WHEELS}}}"\n'
        'export secrets="${LUMICONTAINER_SECRETS:-/run/secrets}"\n'
        f". {STAGE}/values.sh\n{work}"
        f"cd /\nrm -rf {STAGE}\n{CLEAN})\n"
    )


def planned(resolved: Resolved) -> Plan:
    """Plan a resolved recipe with the programs that are baked into images."""
    return make_plan(resolved, programs())
