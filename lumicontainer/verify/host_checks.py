"""The checks of an image that the host makes from outside the image."""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.catalog import Catalog
from lumicontainer.core.lock import apply_lock, faults, file_name
from lumicontainer.core.model.check import HOST
from lumicontainer.core.plan.plan import planned
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.facts import written
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.errors import InputError, LumicontainerError
from lumicontainer.host.binds import closure_in
from lumicontainer.host.recipes import open_lock
from lumicontainer.image import inspect as images
from lumicontainer.image import integrity, records, sif
from lumicontainer.image.digests import NOT_RECORDED, IntegrityResult
from lumicontainer.image.sif_format import Descriptor
from lumicontainer.inside.verify.outcome import FAILED, PASSED, SKIPPED, Outcome
from lumicontainer.system import units
from lumicontainer.trust import signatures
from lumicontainer.trust.signatures import Signer
from lumicontainer.verify.results import row
from lumicontainer.verify.subject import Row, Subject, read_subject

_SQUASHFS = struct.Struct("<4s36xQ")
"""The magic and the size in bytes in a superblock (squashfs 4.0)."""
_DIFFERENCES = 10
_MISSING = object()


@dataclass(frozen=True)
class Request:
    """Hold the image to check, and what it is compared with."""

    image: Path
    catalog: Catalog
    recipe: str = ""
    """The recipe that the image should come from; empty to skip this check."""
    root: Path | None = None
    """The root folder of a host whose libraries the image should load."""
    signer: Signer | None = None
    """The expected signer of the image; None to skip this check."""

    @cached_property
    def subject(self) -> Subject:
        """Return the image with its records."""
        return read_subject(self.image)

    @cached_property
    def digests(self) -> IntegrityResult:
        """Return the result of the check of every byte of the image."""
        return integrity.check_image(self.image)


class HostCheck(NamedTuple):
    """Hold one check and the function that makes it."""

    summary: str
    hint: str
    make: Callable[[Request], Outcome]
    is_requested: Callable[[Request], bool] = lambda _: True


def whole(request: Request) -> Outcome:
    """Check that every byte of an image is as the build wrote it."""
    try:
        parts = sif.partitions(request.image)
        result = request.digests
    except LumicontainerError as error:
        return _outcome([problem.why for problem in error.problems])
    if problems := [*result.problems, *_damaged(request.image, parts)]:
        return _outcome(problems)
    number = units.count(len(parts), "file system")
    if result.state == NOT_RECORDED:
        problem = integrity.problem(request.image, result)
        return Outcome(SKIPPED, f"{problem.what}: {problem.why}", output=number)
    return _outcome([], f"{number}; {integrity.summary(result)}")


def _damaged(image: Path, parts: Iterable[Descriptor]) -> Iterator[str]:
    """Yield each file system of an image that is not squashfs, or is truncated."""
    with image.open("rb") as file:
        for part in parts:
            # A writable overlay that a user added is ext3, and changes.
            if part.form != sif.SQUASHFS:
                continue
            file.seek(part.offset)
            magic, size = _SQUASHFS.unpack(file.read(_SQUASHFS.size).ljust(_SQUASHFS.size, b"\0"))
            if magic != b"hsqs":
                yield f"at byte {part.offset} there is no squashfs"
            elif size > part.size:
                where = f"at byte {part.offset}"
                yield f"the file system {where} has {size} bytes, and the image {part.size} of them"


def signed(request: Request) -> Outcome:
    """Check that a signer signed the image as it is."""
    assert request.signer is not None
    verdict = signatures.judge_signature(request.image, request.signer, request.digests)
    if verdict.is_valid:
        return _outcome([], ", ".join(verdict.fingerprints) or str(request.signer.file))
    why = signatures.problem(request.image, verdict)
    return _outcome(list(filter(None, (why.what, why.why))))


def labelled(request: Request) -> Outcome:
    """Check that an image has the label of its key."""
    labels = records.labels(request.image)
    if labels.get(images.KEY_LABEL):
        return _outcome([], str(labels[images.KEY_LABEL]))
    if records.build_date(request.image):
        return Outcome(SKIPPED, "a plain engine built it from a definition, which has no key")
    return _outcome([f"it has no label {images.KEY_LABEL}"])


def current(request: Request) -> Outcome:
    """Check that its recipe now makes the same image, for the same platform and profile."""
    subject = request.subject
    try:
        plans = dict(_plans(request, subject.resolved))
    except LumicontainerError as error:
        return _outcome(str(error).splitlines())
    key = records.key(request.image)
    if key in plans:
        return _outcome([], f"{request.recipe}{plans[key]}: key {key}")
    now = json.loads(json.dumps(resolved_record(_resolved(request, subject.resolved))))
    differences = list(_differences(subject.resolved, now))
    if not key and not differences:
        why = "its values match the recipe; without a key its scripts are not known"
        return Outcome(SKIPPED, why)
    same = (
        "its values match the recipe: a script or another file of a layer, or lumicontainer "
        "itself, has changed"
    )
    shown = differences[:_DIFFERENCES] or [same]
    if len(differences) > _DIFFERENCES:
        shown.append(f"and {len(differences) - _DIFFERENCES} more")
    built = f"it was built with key {key[:12]}" if key else "it was built without a key"
    return _outcome([f"{built}; the key of the recipe is now {next(iter(plans))[:12]}", *shown])


def _plans(request: Request, built: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    resolved = _resolved(request, built)
    yield planned(resolved).steps[-1].key, ""
    file = request.catalog.lock(file_name(resolved))
    lock = open_lock(*file) if file else None
    if lock and not faults(lock, resolved):
        yield planned(apply_lock(resolved, lock)).steps[-1].key, ", locked"


def _resolved(request: Request, built: Mapping[str, Any]) -> Resolved:
    options = [
        f"{layer}.{name}={written(row['version'] if name == 'version' else value)}"
        for layer, row in built["layers"].items()
        for name, value in {"version": "", **row["parameters"]}.items()
        if row["origins"].get(name) == "option"
    ]
    platform, profile = built["platform"]["name"], built.get("profile", "")
    return resolve(request.catalog.materials(request.recipe, platform, profile), options)


def _differences(built: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield where two records differ in what decides an image."""
    if not isinstance(built, dict) or not isinstance(now, dict):
        if built != now:
            texts = ("none" if each is _MISSING else json.dumps(each) for each in (built, now))
            yield "{}: {} in the image, {} by the recipe".format(where, *texts)
        return
    for name in dict.fromkeys((*built, *now)):
        if name not in ("origins", "summary"):
            path = f"{where}.{name}" if where else name
            yield from _differences(built.get(name, _MISSING), now.get(name, _MISSING), path)


def libraries(request: Request) -> Outcome:
    """Check that the libraries that an image takes from a host load in it."""
    assert request.root is not None
    platform = request.catalog.platform(request.subject.resolved["platform"]["name"])
    closure = closure_in(request.root, request.image, platform)
    if closure is None:
        return Outcome(SKIPPED, "it takes no library from its host")
    errors = [str(each) for each in closure.problems if each.level == "error"]
    warnings = [str(each) for each in closure.problems if each.level != "error"]
    binds = [f"{mount}: {mount.reason}" for mount in closure.mounts]
    return _outcome(errors, "\n".join((*warnings, *binds)))


def _outcome(problems: list[str], output: str = "") -> Outcome:
    return Outcome(FAILED if problems else PASSED, "\n".join(problems), output=output)


CHECKS: Mapping[str, HostCheck] = {
    "whole": HostCheck(
        "every byte of the image is as the build wrote it",
        "copy it again, or build it again",
        whole,
    ),
    "signature": HostCheck(
        "the image is signed by the key of --signed-by, and has not changed since",
        "apptainer verify --local IMAGE; copy the image again from its source",
        signed,
        lambda request: request.signer is not None,
    ),
    "key": HostCheck(
        "the image has a label with the key of its inputs",
        "build it with lumicontainer build",
        labelled,
    ),
    "recipe": HostCheck(
        "the recipe now makes the same image, for the image's platform and profile",
        "lumicontainer build RECIPE builds only what has changed",
        current,
        lambda request: bool(request.recipe),
    ),
    "libraries": HostCheck(
        "the libraries that the image takes from the host load in it, with their dependencies",
        "set the layer's provider to 'source', or build for the host as it is",
        libraries,
        lambda request: request.root is not None,
    ),
}


def rows(request: Request) -> list[Row]:
    """Return the requested checks of the host, in the form of checks.json."""
    return [
        {"name": f"{HOST}/{name}", "summary": each.summary, "hint": each.hint, "level": "quick"}
        for name, each in CHECKS.items()
        if each.is_requested(request)
    ]


def is_own(check: Row) -> bool:
    """Return whether a check is one of the host's."""
    return str(check["name"]).startswith(f"{HOST}/")


def is_first(check: Row) -> bool:
    """Return whether the image is not started if a check fails."""
    return check["name"] in (f"{HOST}/whole", f"{HOST}/signature")


def make(request: Request, check: Row) -> Row:
    """Make one of the host's checks; return it with its outcome."""
    try:
        outcome = CHECKS[check["name"].partition("/")[2]].make(request)
    except InputError as error:
        # A record of the image is damaged.
        outcome = _outcome([f"{problem.what}: {problem.why}" for problem in error.problems])
    return row(check, outcome)
