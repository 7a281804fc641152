"""Plan the step of a layer.

A layer with a ``compile.sh`` has two programs. One compiles wheels on the layers that it requires;
the other installs them on all layers below. A change of a layer between keeps the wheels.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.constants import STAGE, WHEELS, search_path
from lumicontainer.core import shell
from lumicontainer.core.model import Content, LayerFile, Packages, Source
from lumicontainer.core.model.source import FOLDER, REQUIREMENTS, fetched, requirement, sdists
from lumicontainer.core.plan import steps
from lumicontainer.core.plan.steps import Compile, Step
from lumicontainer.core.plan.variables import fold
from lumicontainer.core.resolve.decisions import ResolvedLayer
from lumicontainer.core.shipped import APT_FILES, step_script
from lumicontainer.core.yaml.validators import FINISH

APT_GET = "apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0"
_LOCKED = "locked.txt"
_BUILD_SOURCE = "build-source.sh"
_INSTALL = "install-python.sh"
_APT_HASHES = "apt-hashes.txt"

_FETCH = "fetch.sh"
_FETCHING = (_FETCH, "download.sh", "limits.sh", "mirrors.sh")


class Parent(NamedTuple):
    """Hold what a step finds: the key of the tree, the environment and the search path."""

    name: str
    key: str
    environment: Mapping[str, str]
    path: tuple[str, ...]


def layer_step(layer: ResolvedLayer, own: Parent, required: Parent) -> Step | None:
    """Return the step of a layer, if it has something to do.

    ``own`` is what it finds, with its own environment; ``required`` is what its compiler finds.
    """
    files = [file for file in layer.files if file.name != FINISH]
    if python := sdists(layer.content.sources):
        version = layer.values().get("version", "")
        lines = "".join(requirement(source, version) for source in python)
        files.append(LayerFile(REQUIREMENTS, 0o644, lines.encode()))
    content = layer.content
    locked = content.built or _locked_files(content)
    if not (files or content.apt or content.python or locked):
        return None
    if any(file.name == layer.compile for file in files):
        step = _compiling_step(layer, files, own, required)
    else:
        program = _work(layer, files, own, script=layer.script)
        step = steps.make_step(layer.name, program, _inputs(layer, files, own), layer.secrets)
    return _limit_jobs(step, content.expects.memory_per_job)


def _compiling_step(
    layer: ResolvedLayer, files: list[LayerFile], own: Parent, required: Parent
) -> Step:
    compiled = _compile(layer, [f for f in files if f.name != layer.script], required)
    files = [file for file in files if file.name != layer.compile]
    program = _work(layer, files, own, script=layer.script)
    inputs = {**_inputs(layer, files, own), "compiled": compiled.key}
    step = steps.make_step(layer.name, program, inputs, layer.secrets)
    install = _work(layer, files, own, script=layer.script, installs=False)
    made = f"umask 022\nmkdir -p {WHEELS}\n"
    document = f"{made}{compiled.program}{install}rm -rf {WHEELS}\n"
    return step._replace(documents=(document,), compiled=compiled)


def _limit_jobs(step: Step, memory: int) -> Step:
    """Return a step with the memory of a compile job, by which a plain build chooses its jobs."""
    if not memory:
        return step
    count = f"n = int($2 / {memory >> 10}); print (n > cores ? cores : n < 1 ? 1 : n)"
    choose = (
        'if [ -z "${LUMICONTAINER_JOBS:-}" ]; then\n'
        f"    # A compile job takes up to {memory >> 20} MiB.\n"
        '    LUMICONTAINER_JOBS=$(awk -v cores="$(nproc)" \\\n'
        f"        '/^MemAvailable:/ {{{count}}}' /proc/meminfo)\n"
        "    export LUMICONTAINER_JOBS\nfi\n"
    )
    first, *others = step.documents
    compiled = step.compiled and step.compiled._replace(memory_per_job=memory)
    return step._replace(
        documents=(choose + first, *others), compiled=compiled, memory_per_job=memory
    )


def _compile(layer: ResolvedLayer, files: list[LayerFile], required: Parent) -> Compile:
    content = layer.content
    own = required._replace(
        environment=fold(required.environment, content.environment, content.prepend),
        path=content.path + required.path,
    )
    program = _work(layer, files, own, script=layer.compile)
    inputs = steps.with_program({**_inputs(layer, files, own), "makes": "wheels"}, program)
    key, packages = steps.key_of(inputs), _packages(layer, files, own)
    about = (layer.name, key, program, inputs, required.key, layer.secrets)
    return Compile(*about, packages=packages)


def _packages(layer: ResolvedLayer, files: list[LayerFile], parent: Parent) -> str:
    """Return the program that installs the Debian packages of a layer and does no more."""
    if not layer.content.apt:
        return ""
    layer_content = layer.content
    # Only the script that adds repositories uses sources before the packages are there.
    sources = layer_content.sources if layer_content.apt_repositories else ()
    apt = Packages(apt=layer_content.apt)
    content = layer_content._replace(packages=apt, locked=(), indexed={}, built=(), sources=sources)
    return _work(layer._replace(content=content, secrets=()), files, parent, script="")


def adding_repositories(layer: ResolvedLayer) -> str:
    """Return the program that adds the repositories of a layer and does no more, if it has any."""
    if not layer.content.apt_repositories:
        return ""
    content = layer.content._replace(packages=Packages(), locked=(), indexed={}, built=())
    alone = layer._replace(content=content, secrets=())
    own = Parent(layer.name, "", fold({}, content.environment, content.prepend), ())
    return _work(alone, list(layer.files), own, script="")


def _inputs(layer: ResolvedLayer, files: list[LayerFile], parent: Parent) -> dict[str, Any]:
    sources = [each.input().label for each in fetched(layer.content.sources, files)]
    content = layer.content
    locked = {
        "apt_hashes": content.apt_hashes,
        "locked": content.locked,
        "indexed": content.indexed,
        "built": content.built,
    }
    return {
        **({"sources": sources} if sources else {}),
        "parent": parent.key,
        "values": layer.values(),
        "environment": parent.environment,
        "path": parent.path,
        "apt": layer.content.apt,
        "python": layer.content.python,
        **{name: value for name, value in locked.items() if value},
        "files": steps.digests(files),
    }


def _work(
    layer: ResolvedLayer,
    files: list[LayerFile],
    parent: Parent,
    *,
    script: str,
    installs: bool = True,
) -> str:
    """Return the program that installs a layer's packages and runs a script, if it is there."""
    variables = {**parent.environment, "PATH": search_path(parent.path), **layer.values()}
    sources = fetched(layer.content.sources, files)
    fetch = fetch_text(sources, STAGE)
    install = _install_packages(layer.content) if installs else ""
    # A repository's key is fetched; all else is fetched by what the layer itself may install.
    first, then = (fetch, install) if layer.content.apt_repositories else (install, fetch)
    work = _require_secrets(layer.secrets) + first + then
    if any(file.name == script for file in files):
        work += f"(cd {STAGE}/layer && bash ./{script})\n"
    staged = [LayerFile("values.sh", 0o644, shell.exports(variables).encode())]
    staged += _installing_files(layer.content) if installs else ()
    staged += fetch_files(sources)
    staged += [LayerFile(f"layer/{file.name}", file.mode, file.content) for file in files]
    return steps.program_of(layer.name, staged, work=work)


def _require_secrets(secrets: Iterable[str]) -> str:
    """Return shell text that ends the step if a secret is missing, as in a plain build."""
    text = ""
    for secret in secrets:
        hint = f"lumicontainer build --secret id={secret},src=FILE"
        message = shlex.join([f"error: the secret '{secret}' is not here; hint: {hint}"])
        text += f'[ -r "$secrets/{secret}" ] || {{ echo {message} >&2; exit 1; }}\n'
    return text


def fetch_files(sources: Sequence[Source]) -> Iterator[LayerFile]:
    """Yield the files by which a step fetches sources, if there are any."""
    for name in _FETCHING if sources else ():
        yield LayerFile(name, 0o644, step_script(name))


def fetch_text(sources: Sequence[Source], stage: str) -> str:
    """Return shell text that fetches sources into a folder of ``stage``, if there are any."""
    lines = [f"bash {stage}/{_FETCH} {shlex.join(each.fetch())}\n" for each in sources]
    return "".join([f"export {FOLDER}={stage}/{FOLDER}\n", *lines]) if lines else ""


def _install_packages(content: Content) -> str:
    """Return shell text that installs a layer's packages, with its files in STAGE/layer."""
    text = ""
    if content.apt_repositories:
        text += f"(cd {STAGE}/layer && bash ./{content.apt_repositories})\n"
    if content.apt:
        words = " ".join(content.apt)
        text += f"{_update(content)}{APT_GET} install --no-install-recommends {words}\n"
    if content.python:
        quoted = shlex.join(content.python)
        text += f"bash {STAGE}/{_INSTALL} {quoted}\n"
    for number, _ in enumerate(content.built):
        text += f"bash {STAGE}/{_BUILD_SOURCE} {STAGE}/{number}\n"
    for file in _locked_files(content):
        # In isolation pip fetches, by no hash, what a source is built with.
        # What another index has comes first: some of the rest may need it, and it needs the rest.
        alone = "" if file.name == _LOCKED else "--no-deps "
        text += (
            f"python3 -m pip install --no-build-isolation {alone}--require-hashes"
            f" --requirement {STAGE}/{file.name}\n"
        )
    return text


def _update(content: Content) -> str:
    """Return shell text that updates apt's lists, and compares them with the hashes of a lock.

    A mirror that is frozen on a day has lists that are out of date: with hashes they will do.
    """
    if not content.apt_hashes:
        return f"{APT_GET} update\n"
    check = f"bash {STAGE}/{APT_FILES.name} check {STAGE}/{_APT_HASHES}\n"
    return f"{APT_GET} update -o Acquire::Check-Valid-Until=false\n{check}"


def _installing_files(content: Content) -> Iterator[LayerFile]:
    """Yield the files by which a step installs a layer's packages."""
    yield from _locked_files(content)
    yield from _built_files(content)
    if content.apt_hashes:
        yield _file_of_lines(_APT_HASHES, content.apt_hashes)
        yield LayerFile(APT_FILES.name, 0o644, step_script(APT_FILES.name))
    if content.python:
        yield LayerFile(_INSTALL, 0o644, step_script(_INSTALL))


def _built_files(content: Content) -> Iterator[LayerFile]:
    """Yield the program that builds locked sources, with its requirements, if there are any."""
    for number, (source, needs) in enumerate(content.built):
        yield _file_of_lines(f"{number}-source.txt", source)
        yield _file_of_lines(f"{number}-build.txt", needs)
    if content.built:
        yield LayerFile(_BUILD_SOURCE, 0o644, step_script(_BUILD_SOURCE))


def _file_of_lines(name: str, lines: Iterable[str]) -> LayerFile:
    return LayerFile(name, 0o644, "".join(f"{line}\n" for line in lines).encode())


def _locked_files(content: Content) -> Sequence[LayerFile]:
    """Return the requirements that a lock holds, as pip reads them."""
    groups = [(f"--extra-index-url {url}", *lines) for url, lines in content.indexed.items()]
    named = {f"{number}-{_LOCKED}": lines for number, lines in enumerate(groups)}
    named |= {_LOCKED: content.locked} if content.locked else {}
    return [_file_of_lines(name, lines) for name, lines in named.items()]
