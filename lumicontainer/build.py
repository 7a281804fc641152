"""Build an image: carry out a plan's steps, pack the tree, check the image, put it in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lumicontainer import machine, pack, process, sif
from lumicontainer.aptsources import main_archive
from lumicontainer.engines import Engine
from lumicontainer.errors import (
    ExaminedError,
    HostError,
    InputError,
    Problem,
    SpaceError,
    StepError,
)
from lumicontainer.image import KEY_LABEL
from lumicontainer.plan import HOME, STAGE, Plan, Step
from lumicontainer.progress import Progress
from lumicontainer.render import render, render_base
from lumicontainer.site import Site, require_mirror, stage_site
from lumicontainer.workspace import (
    GIB,
    NEED_TREE,
    Workspace,
    remove_tree,
    require_space,
    temporary_root,
    workspace,
)

_STAGED = ".lumicontainer"
_NEED_IMAGE = 2 * GIB
_FULL = 64 << 20
"""Bytes: with less than this free after a failure, the disk was full."""


@dataclass(frozen=True)
class Builder:
    """Hold what a build works with."""

    plan: Plan
    engine: Engine
    site: Site
    progress: Progress
    jobs: int


def check_output(output: Path) -> None:
    """Raise ``InputError`` where the output would overwrite something that is no image."""
    if not output.parent.is_dir():
        raise InputError(
            Problem("the image's folder is not there", str(output.parent), mend="make it first")
        )
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise InputError(
            Problem(
                "the image's folder cannot be written to",
                str(output.parent),
                mend="name another --output",
            )
        )
    if output.exists() or output.is_symlink():
        try:
            sif.read_objects(output)
        except InputError as error:
            raise InputError(
                Problem(
                    "the output is there and is no image",
                    str(output),
                    why="only an image is replaced by an image",
                    mend="name another --output, or move the file away",
                )
            ) from error


def check_host(output: Path) -> None:
    """Raise where this host cannot build, or has too little room, before anything is begun."""
    require_space(temporary_root(), NEED_TREE, "the build's files")
    require_space(output.parent, _NEED_IMAGE, "the image")
    if machine.subordinate_ids(Path("/etc/subuid")) is None:
        raise HostError(
            Problem(
                "this user cannot build images here",
                where="/etc/subuid",
                why="it holds no range of subordinate ids for you, as on LUMI, where users have "
                "no user namespaces",
                mend="ask for one (make engine adds it where you have sudo), or build with PRoot: "
                "lumicontainer render RECIPE >x.def; singularity build x.sif x.def",
            )
        )


def build(builder: Builder, output: Path) -> None:
    """Build the image and give it its name once it is whole and its checks hold.

    Raises ``StepError`` where a step fails, ``ExaminedError`` where a check does; whatever stood
    at ``output`` before is then as it was.
    """
    with workspace(builder.plan.resolved.recipe.name) as place:
        stage_site(builder.site, _staged(place), f"/tmp/{_STAGED}")
        with builder.progress.step("base"):
            _bootstrap(builder, place)
        for step in builder.plan.steps:
            with builder.progress.step(step.name):
                _run_step(builder, place, step)
        with _partial(output) as partial:
            with builder.progress.step("pack"):
                _pack(builder, place, partial)
            with builder.progress.step("check"):
                _check(builder, place, partial)
            partial.replace(output)
            pack.sync(output.parent)
        with builder.progress.step("tidy"):
            remove_tree(place.root)


def _staged(place: Workspace) -> Path:
    folder = place.temporary / _STAGED
    folder.mkdir(exist_ok=True)
    return folder


def _environment(place: Workspace) -> dict[str, str]:
    scratch = place.root / "engine"
    scratch.mkdir(exist_ok=True)
    names = ("APPTAINER_TMPDIR", "SINGULARITY_TMPDIR")
    return machine.clean_environment() | dict.fromkeys(names, str(scratch))


def _run(builder: Builder, place: Workspace, name: str, command: Sequence[str]) -> None:
    log = place.log(name)
    with log.open("w") as file:
        environment = _environment(place)
        status = process.logged(command, file, env=environment, on_line=builder.progress.line)
    if status:
        raise _failure(builder, place, name, status)


def _bootstrap(builder: Builder, place: Workspace) -> None:
    definition = place.root / "base.def"
    mirror = require_mirror(builder.site.mirror)
    definition.write_text(render_base(builder.plan, mirror=mirror))
    _run(builder, place, "base", builder.engine.bootstrap(definition, place.tree))


def _run_step(builder: Builder, place: Workspace, step: Step) -> None:
    staged = _staged(place)
    (staged / "step.sh").write_text(step.program)
    inside = f"/tmp/{_STAGED}"
    script = f". {inside}/site.sh && exec bash {inside}/step.sh"
    command = ["/usr/bin/env", f"LUMICONTAINER_JOBS={builder.jobs}", "bash", "-c", script]
    with _mount_points(place.tree, builder.site.folders):
        full = builder.engine.step(
            place.tree, command, temporary=place.temporary, folders=builder.site.folders
        )
        _run(builder, place, step.name, full)


@contextmanager
def _mount_points(tree: Path, folders: Sequence[Path]) -> Iterator[None]:
    """Make the folders onto which the host's are bound, and remove those that were made.

    A writable container cannot make them itself.
    """
    made: list[Path] = []
    for folder in folders:
        inside = tree / str(folder).lstrip("/")
        missing = [inside, *inside.parents]
        for path in reversed(missing[: missing.index(tree)]):
            if not path.is_dir():
                path.mkdir()
                made.append(path)
    yield
    # After a failure they stay, so that a shell in the kept state finds the same binds.
    for path in reversed(made):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _failure(builder: Builder, place: Workspace, name: str, status: int) -> Exception:
    log = place.log(name)
    tail = "\n".join(log.read_text().rstrip("\n").splitlines()[-20:])
    if shutil.disk_usage(place.root).free < _FULL:
        return SpaceError(
            Problem(
                f"the step '{name}' ran out of room",
                str(place.root.parent),
                why=tail,
                mend="make room, or name another place with LUMICONTAINER_TMPDIR",
            )
        )
    place.keep = place.tree.is_dir()
    kept = place.root if place.keep else None
    saved = log if kept else _save_log(place, name)
    mend = f"read the whole log: {saved}"
    if kept:
        mend += f"\nopen a shell in the state of the failure: {_write_opener(builder, place)}"
        mend += "\n(it is kept until the next build of this recipe)"
    return StepError(
        Problem(f"the step '{name}' failed ({process.describe(status)})", why=tail, mend=mend)
    )


def _write_opener(builder: Builder, place: Workspace) -> Path:
    """Write a script that opens a shell with the step's files, values and working folder."""
    settings = f"for file in /tmp/{_STAGED}/site.sh {STAGE}/values.sh; do\n"
    settings += '    if [ -e "$file" ]; then . "$file"; fi\ndone\n'
    settings += f"if [ -d {STAGE}/layer ]; then cd {STAGE}/layer; fi\n"
    (_staged(place) / "shell.rc").write_text(settings)
    command = builder.engine.step(
        place.tree,
        ["bash", "--rcfile", f"/tmp/{_STAGED}/shell.rc", "-i"],
        temporary=place.temporary,
        folders=builder.site.folders,
    )
    opener = place.root / "shell"
    opener.write_text(f"#!/bin/sh\nexec {process.quoted(command)}\n")
    opener.chmod(0o700)
    return opener


def _save_log(place: Workspace, name: str) -> Path:
    saved = place.root.parent / f"{place.root.name}.{name}.log"
    shutil.copy(place.log(name), saved)
    return saved


@contextmanager
def _partial(output: Path) -> Iterator[Path]:
    """Give the name under which an image is written; what is left there at the end goes."""
    partial = output.with_name(f".{output.name}.partial-{os.getpid()}")
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def _pack(builder: Builder, place: Workspace, partial: Path) -> None:
    plan = builder.plan
    mirror = _public_mirror(place.tree, plan.bootstrap.release)
    definition = render(plan, "def", mirror=mirror)
    labels = {
        "org.opencontainers.image.title": plan.resolved.recipe.name,
        "org.opencontainers.image.description": plan.resolved.recipe.summary,
        KEY_LABEL: plan.steps[-1].key,
    }
    _scrub(place.tree, definition, labels)
    attributes = {"labels": labels, "deffile": definition}
    try:
        pack.pack(
            place.tree,
            partial,
            definition=definition,
            metadata={"data": {"attributes": attributes}, "type": "container"},
        )
    except process.ProgramError as error:
        if shutil.disk_usage(partial.parent).free < _FULL:
            why = str(error.problems[0].why)
            raise SpaceError(
                Problem("the image ran out of room", str(partial.parent), why, "make room")
            ) from error
        raise


def _public_mirror(tree: Path, release: str) -> str:
    """Return the mirror that the image itself names, which is the distribution's default."""
    sources = tree / "etc/apt/sources.list"
    texts = [sources.read_text()] if sources.is_file() else []
    return main_archive(texts, [release])


def _scrub(tree: Path, definition: str, labels: dict[str, str]) -> None:
    """Replace what the engine noted of the build's host by what holds anywhere."""
    import json  # noqa: PLC0415 - only builds need it

    notes = tree / ".singularity.d"
    (notes / "Singularity").write_text(definition)
    (notes / "labels.json").write_text(json.dumps(labels, indent=2, sort_keys=True) + "\n")
    history = notes / "bootstrap_history"
    if history.is_dir():
        shutil.rmtree(history)


def _check(builder: Builder, place: Workspace, partial: Path) -> None:
    """Run the checks of the plan's layers in the packed image; raise with all that fail."""
    problems = []
    commands = {"lumi-entry": [f"{HOME}/bin/lumi-entry", "--version"]}
    for layer in builder.plan.resolved.included():
        for check in layer.checks:
            name = check.name.removeprefix("checks/")
            interpreter = "python3" if name.endswith(".py") else "bash"
            commands[f"{layer.name}/{name}"] = [interpreter, f"{HOME}/checks/{layer.name}/{name}"]
    for name, inside in commands.items():
        log = place.log(f"check-{name.replace('/', '-')}")
        command = builder.engine.execute(partial, inside, binds=())
        with log.open("w") as file:
            builder.progress.line(name)
            status = process.logged(command, file, env=machine.clean_environment())
        if status:
            tail = "\n".join(log.read_text().splitlines()[-20:])
            what = f"the check '{name}' does not hold ({process.describe(status)})"
            problems.append(Problem(what, process.quoted(inside), why=tail))
    if problems:
        kept = shutil.move(partial, place.root / "image.sif")
        place.keep = True
        again = process.quoted(builder.engine.execute(Path(kept), ["bash"], binds=()))
        mend = f"the image is kept until the next build of this recipe; enter it with: {again}"
        raise ExaminedError(*problems, Problem("the image was not put in place", mend=mend))
