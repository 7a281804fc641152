"""Describe how images start for other programs: batch scripts, kernels, module files, tests."""

import os
import re
import shlex
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.image import Image
from lumicontainer.core import habits
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Platform
from lumicontainer.core.model.check import LEVELS
from lumicontainer.core.render.jinja import fill
from lumicontainer.engines import find_engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.mounts import add_extensions
from lumicontainer.frontends.edf import edf, edf_folder, write_squashfs
from lumicontainer.frontends.kernel import kernel, kernels_folder
from lumicontainer.frontends.module import module_of, write_modules
from lumicontainer.frontends.owned import not_own, write_files
from lumicontainer.host import recipes
from lumicontainer.host.binds import (
    Needs,
    missing_of_user,
    needs_of,
    of_another,
    static_needs,
    takes_of_host,
)
from lumicontainer.image import records, sif
from lumicontainer.system.user_namespaces import namespace_options
from lumicontainer.verify import job
from lumicontainer.verify.subject import read_subject

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^$`\\]*)")
"""The engines evaluate ``$``, backquotes and backslashes in the values of SINGULARITYENV."""
OnProblem = Callable[[Problem], None]
"""Receives each warning."""


@dataclass(frozen=True)
class ImageRequest:
    """Hold an image, and what decides how it starts."""

    image: Path
    platform: str | None = None
    """Where it runs; by default the platform of this host."""
    recipes: Path | None = None
    """A folder of your own, which may define the platform."""
    extensions: Sequence[Path] = ()

    def find_platform(self) -> Platform:
        """Read the platform."""
        return recipes.find_platform(open_catalog(self.recipes), self.platform)

    def find_needs(self, platform: Platform, *, static: bool) -> Needs:
        """Return what containers need of this host, or with ``static`` of every node."""
        needs = (static_needs if static else needs_of)(self.image, platform)
        return add_extensions(needs, self.image, self.extensions)

    def open_image(self) -> Image:
        """Read the image; raise ``InputError`` if the file is not one."""
        sif.read_objects(self.image)
        return Image(self.image, self.platform, self.recipes, extensions=tuple(self.extensions))


def require_command(words: Sequence[str], verb: str, image: Path) -> list[str]:
    """Return the words after a verb's image without ``--``; raise ``InputError`` for no command."""
    command = [*(words[1:] if words[:1] == ["--"] else words)]
    if not command:
        hint = f"write lumicontainer {verb} IMAGE -- COMMAND"
        raise InputError(Problem("expected a command to run", hint=hint))
    script = command[0]
    is_program = "/" in script and os.access(script, os.X_OK)
    if script.endswith(".py") and Path(script).is_file() and not is_program:
        entry = shlex.join(["lumi-entry", *command])
        hint = f"lumicontainer {verb} {shlex.quote(str(image))} -- {entry}"
        raise InputError(Problem(f"expected a command, got the script '{script}'", hint=hint))
    if script.startswith("-"):
        option, _, value = script.partition("=")
        habit = habits.habit_hint(verb, option, value or "".join(command[1:2]))
        usage = f"lumicontainer {verb} --platform NAME IMAGE -- COMMAND"
        what = f"expected a command, got option '{script}'"
        raise InputError(Problem(what, hint=habit or f"write options before IMAGE: {usage}"))
    return command


def engine_command(
    request: ImageRequest,
    command: Sequence[str],
    way: str = "exec",
    on_problem: OnProblem = lambda _: None,
) -> list[str]:
    """Return the engine's command that starts an image; ``way`` is that of ``Engine.execute``."""
    image = request.open_image()
    for problem in (*image.warnings, *missing_of_user(os.environ)):
        on_problem(problem)
    if command and "=" not in command[0] and image.key:
        _refuse_changes(command)
        # The engine ends with 255 where a program is missing, env with 127, as a shell does.
        command = ["/usr/bin/env", *command]
    return image.command(command, way)


def _refuse_changes(command: Sequence[str]) -> None:
    """Raise ``InputError`` for a command that would change the image, which cannot be changed."""
    if hint := habits.habit_hint(habits.PROGRAM, " ".join(command[:3])):
        raise InputError(Problem(f"'{' '.join(command[:3])}' cannot change the image", hint=hint))


class Binds(NamedTuple):
    """Hold what an image needs of a platform, and further options of the engine."""

    needs: Needs
    platform: Platform
    options: Sequence[str]
    problems: Sequence[Problem]

    @property
    def value(self) -> str:
        """Return the value of SINGULARITY_BIND."""
        return ",".join(map(str, self.needs.mounts))

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer binds --json`` prints it.

        ``bind`` is a value for SINGULARITY_BIND, ``environment`` the variables of the container,
        ``exports`` those of the shell that calls srun, ``options`` further options of the engine.
        """
        needs = self.needs
        mounts = [asdict(mount) for mount in needs.mounts]
        return {
            "platform": self.platform.name,
            "options": self.options,
            "bind": self.value,
            "binds": [{key: value for key, value in row.items() if value} for row in mounts],
            "environment": {each.name: each.value for each in needs.variables},
            "exports": dict(needs.exports),
            "variables": [asdict(each) for each in needs.variables],
            "absent": [{"path": bind.path, "reason": bind.reason} for bind in needs.absent],
            "problems": [problem._asdict() for problem in needs.problems],
            "works": not needs.unfit(),
        }


def find_binds(request: ImageRequest, *, static: bool = False) -> Binds:
    """Return what an image needs of this host, or with ``static`` of every node."""
    sif.read_objects(request.image)
    platform = request.find_platform()
    needs = request.find_needs(platform, static=static)
    if static:
        return Binds(needs, platform, (), needs.problems)
    problems = (*needs.problems, *missing_of_user(os.environ))
    return Binds(needs, platform, namespace_options(), problems)


@dataclass(frozen=True)
class KernelRequest(ImageRequest):
    """Say which kernel of Jupyter, or which EDF, starts an image."""

    name: str = ""
    """By default the name of the recipe."""
    prefix: Path | None = None
    """The folder; by default where Jupyter, or the container engine, looks for files of yours."""
    edf: bool = False
    """Whether the EDF of CSCS's container engine is written in place of a kernel."""


def write_kernel(request: KernelRequest, on_problem: OnProblem = lambda _: None) -> Path:
    """Write the specification of a kernel, or an EDF; return its path."""
    image = request.image
    sif.read_objects(image)
    name = str(request.name or records.resolved(image)["recipe"])
    if not _NAME.fullmatch(name):
        hint = "name another with --name: use letters, digits, '.', '_' and '-'"
        raise InputError(Problem(f"invalid name of a kernel '{name}'", hint=hint))
    needs = request.find_needs(request.find_platform(), static=request.edf)
    if request.edf:
        file = edf(image, needs, edf_folder(request.prefix, os.environ) / f"{name}.toml")
    else:
        file = kernel(image, needs, name, kernels_folder(request.prefix, os.environ))
    for problem in needs.problems:
        on_problem(problem)
    if problems := [*not_own([file], "name another with --name")]:
        raise InputError(*problems)
    if request.edf:
        write_squashfs(image)
    list(write_files([file]))
    return file.path


@dataclass(frozen=True)
class ModuleRequest:
    """Say which images get module files, the default last, and where."""

    images: Sequence[Path]
    prefix: Path
    tcl: bool = False
    """Whether they are Tcl for Environment Modules in place of Lua for Lmod."""
    variables: Sequence[str] = ()
    """Variables of their containers: texts ``NAME=VALUE``."""
    platform: str | None = None
    recipes: Path | None = None


class WrittenModules(NamedTuple):
    """Hold the new files of modules, and the names by which all are loaded."""

    paths: Sequence[Path]
    names: Sequence[str]


def write_module_files(
    request: ModuleRequest, on_problem: OnProblem = lambda _: None
) -> WrittenModules:
    """Write the module files of images, and the programs that they put in PATH."""
    variables = dict(map(_read_variable, request.variables))
    for image in request.images:
        sif.read_objects(image)
    platform = recipes.find_platform(open_catalog(request.recipes), request.platform)
    needs = {image: static_needs(image, platform) for image in request.images}
    for problem in (problem for each in needs.values() for problem in each.problems):
        on_problem(problem)
    modules = [module_of(each, needs[each], variables) for each in request.images]
    paths = [*write_modules(modules, request.prefix.absolute(), tcl=request.tcl)]
    if not (request.prefix / "modules").stat().st_mode & stat.S_IRGRP:
        what, why = "nobody but you can read these modules", "your umask closes new files to others"
        prefix = str(request.prefix)
        hint = f"chmod -R go+rX {shlex.quote(prefix)}, if they are for others"
        on_problem(Problem(what, prefix, why, hint, "warning"))
    return WrittenModules(paths, [*dict.fromkeys(each.full_name for each in modules)])


def _read_variable(text: str) -> tuple[str, str]:
    match = _VARIABLE.fullmatch(text)
    if match is None or not match[2].isprintable():
        why = "expected NAME=VALUE on one line, without '$', '`' and '\\'"
        hint = "write it like --env HF_HUB_CACHE=/scratch/cache"
        raise InputError(Problem(f"invalid variable '{text}'", "--env", why, hint))
    return match[1], match[2]


def reframe_test(request: ImageRequest, on_problem: OnProblem = lambda _: None) -> str:
    """Return a ReFrame test class that runs the checks of an image."""
    image = request.image
    sif.read_objects(image)
    subject = read_subject(image)
    platform = request.find_platform()
    for problem in of_another(image, subject.resolved, platform):
        on_problem(problem)
    engine = find_engine()
    words = engine.execute(image.absolute(), (), binds=())
    binds = job.binds_command(image, platform, request.recipes)
    recipe = str(subject.resolved["recipe"])
    return fill(
        "reframe.py.j2",
        image=words[-1],
        name="LumiVerify_" + re.sub(r"\W", "_", recipe),
        summary=f"the checks of {recipe}",
        engine=type(engine).__name__,
        options=words[words.index("exec") + 1 : -1],
        binds=binds if takes_of_host(subject.resolved, platform) else [],
        levels=list(LEVELS),
        checks={
            check["name"]: {
                "level": check["level"],
                "seconds": check["timeout_seconds"],
                "mpi": job.is_of_mpi(check),
            }
            for check in subject.checks
        },
        tasks=job.tasks(platform),
        cpus=job.cpus(platform),
    )
