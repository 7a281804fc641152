"""Pin Python packages without a wheel: the pip of the image resolves them on its layers.

The code of a source returns its requirements (PEP 517). That code runs in a container on the layers
below, which are built by their pins. Pip isolates it there, and installs what builds it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer.building import pipeline
from lumicontainer.core.lock import LockEntry, apply_lock, lock_with
from lumicontainer.core.model import LayerFile
from lumicontainer.core.model.requirements import EXACT
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.core.plan.steps import Plan, Step
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import HostError, Problem
from lumicontainer.host.site import Site
from lumicontainer.pinning.container import Program, answers
from lumicontainer.pinning.pip import read_report
from lumicontainer.pinning.wheels import Wheel
from lumicontainer.system import process
from lumicontainer.system.terminal.progress import Progress

_REPORT, _WHY, _REQUIREMENTS = "report.json", "why", "lumicontainer-wanted.txt"
_BUILDS = "builds.json"
_PROGRAM, _BUILDS_PROGRAM = "ask-pip.sh", "lumicontainer-builds.py"
_FOLDER = Path(__file__).parent / "scripts"
SCRIPTS = {_PROGRAM: _FOLDER / _PROGRAM, _BUILDS_PROGRAM: _FOLDER / "ask_for_builds.py"}
"""The programs that ask in the image, by their names there; the first starts the other."""
_DISCARDED = "Discarding "
"""Pip 23 to 26 says so of a version that it cannot read, and takes an older one."""
_MISSING = re.compile(r"(?:Cannot import '|No module named '?)([\w.]+)")
"""How pip and Python report that a build backend is missing (pip 23 to 26)."""


def asking(
    resolved: Resolved, name: str, lines: Sequence[str], pins: Mapping[str, Sequence[LockEntry]]
) -> Resolved:
    """Return an image that ends with the layer ``name``, which asks pip for requirements.

    ``lines`` are the requirements. ``pins`` are the pins of the layers below, and of the layer's
    apt packages. Raises ``HostError`` if one of them is open.
    """
    number = next(n for n, each in enumerate(resolved.layers) if each.name == name)
    upper = resolved._replace(layers=resolved.layers[: number + 1])
    lock = lock_with(upper, {each.name: pins.get(each.name, ()) for each in upper.layers})
    for where, entry in lock.still_open():
        what = f"the layers below cannot be made: {entry.name} of '{where}' is open"
        raise HostError(Problem(what, hint="pin it, then lock the recipe"))
    upper = apply_lock(upper, lock)
    *below, own = upper.layers
    sources = own.content.sources if own.content.apt_repositories else ()
    files = (
        *(each for each in own.files if each.name not in (own.script, own.compile)),
        LayerFile(_REQUIREMENTS, 0o644, "".join(f"{each}\n" for each in lines).encode()),
        LayerFile(_BUILDS_PROGRAM, 0o644, SCRIPTS[_BUILDS_PROGRAM].read_bytes()),
        LayerFile(own.script, 0o755, SCRIPTS[_PROGRAM].read_bytes()),
    )
    content = own.content._replace(locked=(), indexed={}, built=(), sources=sources)
    asks = own._replace(content=content, files=files, secrets=())
    return upper._replace(layers=(*below, asks))


def ask(plan: Plan, site: Site, progress: Progress) -> list[Wheel]:
    """Return the answer of pip in the last layer of a plan.

    Raises the errors of a build if the layers below cannot be built, and ``HostError`` if pip
    finds no packages that can be pinned.
    """
    *below, step, _ = plan.steps
    plan = plan._replace(steps=tuple(map(without_secrets, below)))
    program = Program(f"{step.name}: metadata", step.program, pipeline.assemble)
    files = answers(plan, site, progress, program)
    return read_answer(step.name, files)


def read_answer(layer: str, files: Mapping[str, bytes]) -> list[Wheel]:
    """Return the packages that pip chose; ``files`` are its report and what it printed.

    Raises ``HostError`` if it found none, or took older ones for sources that it cannot read:
    a build, which isolates them, would install others.
    """
    printed = files.get(_WHY, b"").decode("utf-8", "replace")
    # If pip isolates a source, it reads what a build would read, and no text is left.
    if _REPORT not in files or _DISCARDED in printed:
        raise HostError(refused(layer, printed))
    builds = read_builds(files.get(_BUILDS, b"{}"))
    wheels = read(files[_REPORT])
    return [each._replace(built_with=builds.get(normal(each.name), ())) for each in wheels]


def without_secrets(step: Step) -> Step:
    """Return a step that reports its missing secret if it is not in the cache."""
    compiled = step.compiled and step.compiled._replace(secrets=())
    return step._replace(secrets=(), compiled=compiled)


def refused(layer: str, printed: str) -> Problem:
    """Return the problem that the image's pip printed."""
    if missing := _MISSING.findall(printed):
        what = f"a source is built with '{missing[-1]}', and no layer below '{layer}' has it"
        last = printed.rstrip().rpartition("\n")[2]
        return Problem(what, why=last, hint="name its package in 'packages' of one of them")
    what, hint = "the image's pip cannot read the requirements of a source", "read its message"
    return Problem(
        what, why=process.last_lines(printed), hint=f"{hint}; it must be pip 23 or later"
    )


def read(report: bytes) -> list[Wheel]:
    """Return the packages in a report of pip, which code of a source may have written.

    Raises ``HostError`` if it holds more than names, versions and hashes.
    """
    invalid = _invalid_report()
    try:
        data = json.loads(report)
        wheels = read_report(data)
        urls = [each["metadata"]["name"] for each in data["install"] if each["is_direct"]]
        if all(map(_is_sound, wheels)):
            if not urls:
                return wheels
            invalid = _invalid_report(f"a source needs {urls[0]!a} by its URL, which nothing pins")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        pass
    raise invalid


def _invalid_report(what: str = "a source leaves an invalid report of pip") -> HostError:
    return HostError(Problem(what, hint="choose another version of it"))


def read_builds(answer: bytes) -> dict[str, tuple[Wheel, ...]]:
    """Return the packages that build each source, by its plain name; see ``read``."""
    try:
        reports = {
            normal(name): json.dumps(each).encode() for name, each in json.loads(answer).items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _invalid_report() from error
    builds = {name: tuple(read(each)) for name, each in reports.items()}
    if not all(each.tags for wheels in builds.values() for each in wheels):
        raise _invalid_report()
    return builds


def _is_sound(wheel: Wheel) -> bool:
    """Check that a package makes one line of requirements, and one name of a file."""
    line = EXACT.fullmatch(f"{wheel.name}=={wheel.version}")
    digest = re.fullmatch(r"(?:[0-9a-f]{64})?", wheel.sha256)
    return bool(line and digest and re.fullmatch(r"[\w.+!-]+", wheel.file))
