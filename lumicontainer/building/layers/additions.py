"""Make the last layer on a base that is an image file without its tree: it only adds files.

Python of the image compiles the programs, in a container of the image file that an ordinary user
starts; it can write to one folder.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lumicontainer.building.layers.making import make_object
from lumicontainer.cache.objects import Entry
from lumicontainer.constants import HOME, MANIFEST, PROGRAMS, search_path
from lumicontainer.core import shell
from lumicontainer.core.model import Bind, LayerFile
from lumicontainer.core.plan.seal import SEAL
from lumicontainer.core.plan.steps import Plan
from lumicontainer.engines import Engine, find_engine
from lumicontainer.engines.engine import require_option_path
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.host.machine import clean_environment
from lumicontainer.image import records
from lumicontainer.image.assembly.layout import FILE
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.image.assembly.tree import find_node
from lumicontainer.image.records import ABSOLUTE_FOLDER, TEXT, Table
from lumicontainer.sandbox.builder import BaseImage, Builder
from lumicontainer.sandbox.failures.failure import leak_failure
from lumicontainer.sandbox.run import make_environment, run_command
from lumicontainer.sandbox.step_run import StepRun
from lumicontainer.sandbox.tree.edits import Edits
from lumicontainer.sandbox.tree.foreign.in_place import walk_tree
from lumicontainer.sandbox.workspace import remove_tree
from lumicontainer.system import process
from lumicontainer.system.files import foreign, no_links
from lumicontainer.system.terminal.progress import Task

_HOME = "home"
_ANSWERS = "answers.json"
_PACKAGES = "packages.json"
_LARGEST = 16 << 20
"""Bytes of a file that the container left."""
_SCHEMA: records.Schema = {"python": ABSOLUTE_FOLDER, "files": Table(ABSOLUTE_FOLDER, TEXT)}
_SCRIPT = """\
set -eu
umask 022
{path}python3 -I -m compileall -q --invalidation-mode unchecked-hash {home}/lib
export PYTHONPATH={home}/lib
python3 -m lumi_inside.image.inventory >{home}/{packages}
python3 -m lumi_inside.image.extensible --print "$(command -v python3)" >{home}/{answers}
"""


class PythonAnswers(NamedTuple):
    """Hold what Python of the image says."""

    python: str
    files: Mapping[str, str]
    """The content of files by which it sees packages, by their paths."""


def is_possible(plan: Plan) -> bool:
    """Return whether a plan adds nothing but files to an image file."""
    step, *others = plan.steps
    return bool(plan.bootstrap.file) and not others and "finish" not in step.inputs


def can_start(builder: Builder, base: Entry) -> bool:
    """Return whether an engine of this user starts the base, and its tree is not needed."""
    image = builder.images.get(base.name)
    if image is None:
        return False
    if image.starts is None:
        image.starts = _starts(image)
    return image.starts


def _starts(image: BaseImage) -> bool:
    source = image.source
    layer = read_squashfs(source.path, source.offset, size=source.size)
    if find_node(layer.root, HOME):
        return False  # Files of another image of ours would stay beside the new ones.
    try:
        command = find_engine().execute(source.path, ["true"], binds=(), way="containall")
        return process.run_to_end(command, env=clean_environment()).returncode == 0
    except HostError:
        return False


async def make_last_layer(builder: Builder, base: Entry) -> Entry:
    """Return the last layer of an image from the cache, or make it of files alone."""
    (step,) = builder.plan.steps
    about = {"step": step.name, "key": step.key, "inputs": dict(step.inputs)}
    about |= {"kind": "layer", "parent": base.tree}

    async def make(task: Task, draft: Path) -> None:
        run = StepRun(builder, step.name, (base,), task)
        home = run.root / "in" / _HOME
        files = [each._replace(name=each.name.removeprefix(f"{HOME[1:]}/")) for each in step.files]
        no_links.write_tree(home, files)
        command = _command(find_engine(), builder, base, home)
        await run_command(run, command, make_environment(run))
        left = run.root / "left"
        foreign.take(run.root / "in", _HOME, left)
        await asyncio.to_thread(_write, run, files, left, draft)
        await asyncio.to_thread(remove_tree, run.root)

    return await make_object(builder, SEAL, about, make)


def _command(engine: Engine, builder: Builder, base: Entry, home: Path) -> list[str]:
    """Return the command by which Python of the image completes the folder of the programs."""
    path = shell.exports({"PATH": search_path(builder.plan.path)})
    script = _SCRIPT.format(path=path, home=HOME, packages=_PACKAGES, answers=_ANSWERS)
    image, binds = builder.images[base.name].source.path, [f"{require_option_path(home)}:{HOME}"]
    return engine.execute(image, ["/bin/sh", "-c", script], binds=binds, way="containall")


def _write(run: StepRun, files: Sequence[LayerFile], left: Path, draft: Path) -> None:
    """Write the layer: the programs, what Python made of them, and what every image has."""
    builder, base = run.builder, run.below[0]
    source = builder.images[base.name].source
    image = read_squashfs(source.path, source.offset, size=source.size)
    edits = Edits([image, read_squashfs(base.layer, number=1)])
    answers = read_answers(left)
    _make_mount_points(edits, builder.plan.resolved.binds())
    _clear_setuid(edits)
    contents = dict(_installed(files, answers.python, left))
    for path, text in answers.files.items():
        edits.write(path, text.encode())
    for name, (content, mode) in contents.items():
        edits.write(f"{HOME}/{name}", content, mode)
    for name in PROGRAMS:
        edits.link(f"/usr/local/bin/{name}", f"{HOME}/bin/{name}")
    written = {os.fsencode(f"./{name}"): content for name, (content, _) in contents.items()}
    digests = ((hashlib.sha256(written[name]).hexdigest(), name) for name in sorted(written))
    rows = (digest.encode() + b"  " + name + b"\n" for digest, name in digests)
    edits.write(f"{HOME}/{MANIFEST}", b"".join(rows))
    if leaking := edits.leaking():
        raise leak_failure(run, leaking)
    edits.write_layer(draft, run.root / "upper")


def _installed(
    files: Iterable[LayerFile], python: str, left: Path
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Yield the name, the content and the mode of each file below HOME."""
    start = f"#!{python} -ISB".encode()
    for file in files:
        folder, _, name = file.name.rpartition("/")
        if name in PROGRAMS and folder == "lib/lumi_inside":
            _, _, rest = file.content.partition(b"\n")
            yield f"bin/{name}", (start + b"\n" + rest, file.mode)
        else:
            yield file.name, (file.content, file.mode)
    compiled = (name for name in foreign.regular_files(left) if name.endswith(".pyc"))
    for name in (_PACKAGES, *compiled):
        yield name, (foreign.read_below(left, name, _LARGEST), 0o644)


def read_answers(left: Path) -> PythonAnswers:
    """Return what Python of the image left in a folder; raise ``InputError`` if it is invalid."""
    try:
        answers = records.parse(foreign.read_below(left, _ANSWERS, _LARGEST), _SCHEMA)
    except (foreign.OddFilesError, records.RecordError) as error:
        what, hint = "Python of the base image gave an invalid answer", "use another base image"
        raise InputError(Problem(what, why=str(error), hint=hint)) from error
    return PythonAnswers(answers["python"], answers["files"])


def _make_mount_points(edits: Edits, binds: Iterable[Bind]) -> None:
    """Make what engines without privileges cannot: the folders and files of binds."""
    for bind in binds:
        if edits.look(bind.path):
            continue
        if bind.file:
            edits.write(bind.path, b"")
        else:
            edits.make_folder(bind.path)


def _clear_setuid(edits: Edits) -> None:
    """Clear setuid and setgid of the files in the folders for programs, under all their names."""
    marked = [
        (path, node)
        for path, node in walk_tree(edits.root)
        if node.kind == FILE and node.mode & (stat.S_ISUID | stat.S_ISGID)
    ]
    cleared = {id(node) for path, node in marked if path.startswith(("usr/", "opt/"))}
    for path, node in marked:
        if id(node) in cleared:
            edits.set_mode(path, node.mode & 0o1777)
