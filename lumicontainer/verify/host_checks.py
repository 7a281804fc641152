"""Checks of an image that are made from outside it, by the host."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lumicontainer.build.lock_files import open_lock
from lumicontainer.core.catalog import Catalog
from lumicontainer.core.lock.lock import faults, file_name, held
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import record
from lumicontainer.core.resolve.resolve import Resolved, resolve
from lumicontainer.core.schema.check import HOST
from lumicontainer.errors import InputError, LumicontainerError
from lumicontainer.host.binds import closure_in
from lumicontainer.image import inspect as images
from lumicontainer.image import integrity, records, sif
from lumicontainer.image.digests import NOT_RECORDED, Check
from lumicontainer.image.sif_format import Descriptor
from lumicontainer.inside.verify.outcome import FAILED, PASSED, SKIPPED, Outcome
from lumicontainer.system import units
from lumicontainer.verify.results import row
from lumicontainer.verify.subject import Row, Subject, read_subject

_SQUASHFS = struct.Struct("<4s36xQ")
"""Of its superblock: the magic, and how many bytes it has (squashfs 4.0)."""
_ENGINES_LABEL = "org.label-schema.build-date"
"""What Apptainer and SingularityCE put into every image that they build themselves."""
_DIFFERENCES = 10
_MISSING = object()


@dataclass(frozen=True)
class Asked:
    """Hold what the checks are about: an image, and what it is held against."""

    image: Path
    catalog: Catalog
    recipe: str = ""
    """The name of a recipe that the image is to be of; empty where none is asked for."""
    root: Path | None = None
    """The files of a host whose libraries the image is to get along with."""

    @cached_property
    def subject(self) -> Subject:
        """Return what the image tells of itself."""
        return read_subject(self.image)

    @cached_property
    def digests(self) -> Check:
        """Return what came of the check of every byte of the image."""
        return integrity.examined(self.image)


@dataclass(frozen=True)
class HostCheck:
    """Hold one check: what it proves, and the function that makes it."""

    summary: str
    hint: str
    make: Callable[[Asked], Outcome]
    wanted: Callable[[Asked], bool] = lambda _: True

    def row(self, name: str) -> Row:
        """Return it in the form of checks.json."""
        told = {"summary": self.summary, "hint": self.hint, "level": "quick"}
        return {"name": f"{HOST}/{name}", **told}


def whole(asked: Asked) -> Outcome:
    """Tell whether every byte of an image is as the build wrote it."""
    try:
        parts = sif.partitions(asked.image)
        found = asked.digests
    except LumicontainerError as error:
        return _of([problem.why for problem in error.problems])
    problems = [*found.problems, *_cut(asked.image, parts)]
    if problems:
        return _of(problems)
    if found.state == NOT_RECORDED:
        told = integrity.problem(asked.image, found)
        return Outcome(SKIPPED, f"{told.what}: {told.why}", output=_systems(parts))
    return _of([], f"{_systems(parts)}; {integrity.summary(found)}")


def _systems(parts: Sequence[Descriptor]) -> str:
    return units.count(len(parts), "file system")


def _cut(image: Path, parts: Iterable[Descriptor]) -> Iterator[str]:
    """Yield each file system of an image that is none, or that is longer than its place."""
    with image.open("rb") as file:
        for part in parts:
            # What an engine's user lays on top of an image is ext3, and is written to.
            if part.form != sif.SQUASHFS:
                continue
            file.seek(part.offset)
            magic, size = _SQUASHFS.unpack(file.read(_SQUASHFS.size).ljust(_SQUASHFS.size, b"\0"))
            if magic != b"hsqs":
                yield f"at byte {part.offset} there is no squashfs"
            elif size > part.size:
                yield (
                    f"the file system at byte {part.offset} has {size} bytes, and {part.size} lie "
                    "in the image"
                )


def labelled(asked: Asked) -> Outcome:
    """Tell whether an image says by which key it was built."""
    labels = records.labels(asked.image)
    if labels.get(images.KEY_LABEL):
        return _of([], str(labels[images.KEY_LABEL]))
    if _ENGINES_LABEL in labels:
        return Outcome(SKIPPED, "a plain engine built it from a definition, which holds no key")
    return _of([f"it has no label {images.KEY_LABEL}"])


def current(asked: Asked) -> Outcome:
    """Tell whether an image is what its recipe makes now, for the same platform and profile."""
    subject = asked.subject
    try:
        plans = dict(_plans(asked, subject.resolved))
    except LumicontainerError as error:
        return _of(str(error).splitlines())
    key = records.key(asked.image)
    if key in plans:
        return _of([], f"{asked.recipe}{plans[key]}: key {key}")
    now = json.loads(json.dumps(record(_resolved(asked, subject.resolved))))
    differences = list(_differences(subject.resolved, now))
    if not key and not differences:
        why = "its values are those of the recipe, but without a key nothing tells of the scripts"
        return Outcome(SKIPPED, why)
    same = (
        "its values are those of the recipe: a script or another file of a layer, or lumicontainer "
        "itself, has changed"
    )
    shown = differences[:_DIFFERENCES] or [same]
    if len(differences) > _DIFFERENCES:
        shown.append(f"and {len(differences) - _DIFFERENCES} more")
    built = f"it was built with the key {key[:12] or 'of no plan'}"
    return _of([f"{built}; the recipe's is {next(iter(plans))[:12]} now", *shown])


def _plans(asked: Asked, built: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a recipe's image, without its lock and with it, each in words."""
    resolved = _resolved(asked, built)
    yield planned(resolved).steps[-1].key, ""
    file = asked.catalog.lock(file_name(resolved))
    lock = open_lock(*file) if file else None
    if lock and not faults(lock, resolved):
        yield planned(held(resolved, lock)).steps[-1].key, ", locked"


def _resolved(asked: Asked, built: Mapping[str, Any]) -> Resolved:
    """Resolve a recipe as an image of it was: its platform, its profile, its options."""
    options = [
        f"{layer}.{name}={_written(row['version'] if name == 'version' else value)}"
        for layer, row in built["layers"].items()
        for name, value in {"version": "", **row["parameters"]}.items()
        if row["origins"].get(name) == "option"
    ]
    return resolve(
        asked.catalog.recipe(asked.recipe),
        asked.catalog,
        platform=asked.catalog.platform(built["platform"]["name"]),
        profile=built.get("profile", ""),
        options=options,
    )


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _differences(built: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield where two records differ in what decides an image."""
    if not isinstance(built, dict) or not isinstance(now, dict):
        if built != now:
            told = ("none" if each is _MISSING else json.dumps(each) for each in (built, now))
            yield "{}: {} in the image, {} by the recipe".format(where, *told)
        return
    for name in dict.fromkeys((*built, *now)):
        if name not in ("origins", "summary"):
            path = f"{where}.{name}" if where else name
            yield from _differences(built.get(name, _MISSING), now.get(name, _MISSING), path)


def libraries(asked: Asked) -> Outcome:
    """Tell whether the libraries that an image takes of a host load in it."""
    assert asked.root is not None
    platform = asked.catalog.platform(asked.subject.resolved["platform"]["name"])
    closure = closure_in(asked.root, asked.image, platform)
    if closure is None:
        return Outcome(SKIPPED, "it takes no library of its host")
    errors = [str(each) for each in closure.problems if each.level == "error"]
    warnings = [str(each) for each in closure.problems if each.level != "error"]
    binds = [f"{mount}: {mount.reason}" for mount in closure.mounts]
    return _of(errors, "\n".join((*warnings, *binds)))


def _of(problems: list[str], output: str = "") -> Outcome:
    reason = "\n".join(problems)
    return Outcome(FAILED if problems else PASSED, reason, output=output)


CHECKS: Mapping[str, HostCheck] = {
    "whole": HostCheck(
        "every byte of the image is as the build wrote it",
        "copy it again, or build it again",
        whole,
    ),
    "key": HostCheck(
        "the image tells by which inputs it was built",
        "build it with lumicontainer build",
        labelled,
    ),
    "recipe": HostCheck(
        "the image is what its recipe makes now, for the image's platform and profile",
        "lumicontainer build RECIPE makes what has changed, and nothing else",
        current,
        lambda asked: bool(asked.recipe),
    ),
    "libraries": HostCheck(
        "the libraries that the image takes of the host load in it, with all that these need",
        "take the layer's provider 'source', or build for the host as it is",
        libraries,
        lambda asked: asked.root is not None,
    ),
}


def rows(asked: Asked) -> list[Row]:
    """Return the checks of the host that were asked for, as those of an image."""
    return [each.row(name) for name, each in CHECKS.items() if each.wanted(asked)]


def is_own(check: Row) -> bool:
    """Tell whether a check is one of the host's."""
    return str(check["name"]).startswith(f"{HOST}/")


def make(asked: Asked, check: Row) -> Row:
    """Make one of the checks; return it with what came of it."""
    try:
        came = CHECKS[check["name"].partition("/")[2]].make(asked)
    except InputError as error:
        # A record of the image is damaged.
        came = _of([f"{problem.what}: {problem.why}" for problem in error.problems])
    return row(check, came)
