"""Write module files for Lmod and Environment Modules, and the programs that they put in PATH.

The module file is PREFIX/modules/NAME/VERSION.lua. PREFIX/programs/NAME/VERSION/bin has a script,
and a link to it for each program of the image.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.render.jinja import fill
from lumicontainer.engines import find_engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.frontends.owned import MARK, OwnFile, not_own, write_files
from lumicontainer.host.binds import Needs
from lumicontainer.host.machine import clean_environment
from lumicontainer.image import records
from lumicontainer.system import budget, process
from lumicontainer.system.user_namespaces import namespace_options

PROGRAMS = (
    *("python", "python3", "pip", "pip3", "torchrun", "accelerate", "deepspeed"),
    *("lumi-entry", "lumi-verify"),
)
SHELL = "lumi-shell"
_SCRIPT = "run-in-image"
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_PLAIN = re.compile(r"[A-Za-z0-9 /._+@=~,'-]+")
"""The folders that both systems of modules read (seen with Lmod 8.6 and Modules 5.2)."""
_ANOTHER = "name another --prefix"
_HAS = 'for each; do if command -v "$each" >/dev/null; then echo "$each"; fi; done'
_FAMILY = "containerbindings"
"""The family of LUMI's modules of binds (LUMI-EasyBuild-contrib, singularity-AI-bindings-24.03)."""
_CONFLICTS = ("lumi-aif-singularity-bindings",)
"""LUMI's current module of binds, whose module file is not public."""
_HINT = "copy it there, or write a module for its new place: lumicontainer module"


class Module(NamedTuple):
    """Hold what a module file says."""

    name: str
    version: str
    image: Path
    summary: str
    binds: tuple[str, ...]
    variables: Mapping[str, str]
    programs: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """Return the name and the version, as users type them."""
        return f"{self.name}/{self.version}"


def module_of(image: Path, needs: Needs, variables: Mapping[str, str]) -> Module:
    """Return the module of an image with its static needs; ``variables`` are for its containers.

    Raises ``InputError`` if a name does not suit a module.
    """
    record = records.resolved(image)
    name = str(record["recipe"])
    inside = {f"SINGULARITYENV_{each}": value for each, value in variables.items()}
    return Module(
        name=_word("name of a module", name, image),
        version=_word("version of a module", _version(image, name, record), image),
        image=image.absolute(),
        summary=" ".join(str(record["summary"]).split()),
        binds=tuple(mount.source for mount in needs.mounts),
        variables={**needs.exports, **inside},
        programs=_programs(image),
    )


def _version(image: Path, name: str, record: Mapping[str, Any]) -> str:
    """Return what the file's name adds to the recipe's, else the profile or the platform."""
    if image.stem.startswith(f"{name}-"):
        return image.stem.removeprefix(f"{name}-")
    return str(record.get("profile") or record["platform"]["name"])


def _word(kind: str, text: str, image: Path) -> str:
    if _WORD.fullmatch(text) and text != "default" and not text.endswith(".lua"):
        return text
    why = "expected letters, digits, '_', '.', '+' and '-'"
    hint = "rename the image: RECIPE-VERSION.sif"
    raise InputError(Problem(f"invalid {kind} '{text}'", str(image), why, hint))


def _programs(image: Path) -> tuple[str, ...]:
    # The user's environment must not change PATH.
    command = find_engine().execute(
        image, ["sh", "-c", _HAS, "sh", *PROGRAMS, "bash"], binds=(), way="containall"
    )
    # The image's shell may print anything, such as a path out of the folder of the links.
    printed = process.capture(command, env=clean_environment(), limits=budget.ENGINE).split()
    programs = [each for each in (*PROGRAMS, "bash") if each in printed]
    return tuple(SHELL if each == "bash" else each for each in programs)


def write_modules(modules: Sequence[Module], prefix: Path, *, tcl: bool) -> Iterator[Path]:
    """Write modules, the last of each name as the default; yield the changed files.

    Raises ``InputError`` for all files that belong to another program.
    """
    files = [file for each in modules for file in _files(each, prefix, tcl=tcl)]
    files += {each.name: _default(each, prefix, tcl=tcl) for each in modules}.values()
    problems = [*_unfit_paths(modules, prefix), *_twice(modules)]
    if problems := [*problems, *not_own(files, _ANOTHER)]:
        raise InputError(*problems)
    yield from write_files(files)
    for each in modules:
        _remove_links(each, prefix)


def _unfit_paths(modules: Iterable[Module], prefix: Path) -> Iterator[Problem]:
    if not _PLAIN.fullmatch(str(prefix)):
        why = "it has a sign that Lmod or Environment Modules reads as something else"
        yield Problem("cannot keep modules in this folder", ascii(str(prefix)), why, _ANOTHER)
    for each in modules:
        if not str(each.image).isprintable():
            why = "it has control characters, or is not UTF-8"
            yield Problem("cannot write the path of the image", ascii(str(each.image)), why)


def _twice(modules: Iterable[Module]) -> Iterator[Problem]:
    seen: dict[str, Module] = {}
    for each in modules:
        first = seen.setdefault(each.full_name, each)
        if first.image != each.image:
            what = f"two images become the module {each.full_name}"
            hint = f"rename one: {each.name}-VERSION.sif"
            yield Problem(what, f"{first.image}\n{each.image}", hint=hint)


def _bin(module: Module, prefix: Path) -> Path:
    return prefix / "programs" / module.name / module.version / "bin"


def _files(module: Module, prefix: Path, *, tcl: bool) -> Iterator[OwnFile]:
    """Yield the files of a module, the module file last."""
    folder = _bin(module, prefix)
    values = {"mark": f"{MARK} module.", "bin": str(folder), "family": _FAMILY}
    values |= module._asdict() | {"image": str(module.image), "hint": _HINT}
    script = fill("module/program.sh.j2", **values, shell=SHELL, options=namespace_options())
    yield OwnFile(folder / _SCRIPT, script, executable=True)
    for program in module.programs:
        yield OwnFile(folder / program, link=_SCRIPT)
    gone = f"image not found: {module.image}\n  hint: {_HINT}"
    programs = ", ".join(module.programs)
    about = f"{module.summary}\n\nThese programs run in {module.image}:\n{programs}"
    template, suffix = ("module/tcl.j2", "") if tcl else ("module/lua.j2", ".lua")
    text = fill(template, **values, help=about, gone=gone, conflicts=_CONFLICTS)
    yield OwnFile(prefix / "modules" / module.name / f"{module.version}{suffix}", text)


def _default(module: Module, prefix: Path, *, tcl: bool) -> OwnFile:
    template, suffix = ("default-tcl", "") if tcl else ("default-lua", ".lua")
    values = {"mark": f"{MARK} module.", "name": module.name, "version": module.version}
    path = prefix / "modules" / module.name / f".modulerc{suffix}"
    return OwnFile(path, fill(f"module/{template}.j2", **values))


def _remove_links(module: Module, prefix: Path) -> None:
    """Remove the links of programs that the image had before."""
    for path in _bin(module, prefix).iterdir():
        is_link = path.is_symlink() and str(path.readlink()) == _SCRIPT
        if is_link and path.name not in module.programs:
            path.unlink()
