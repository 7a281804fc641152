"""Make an extension: resolve, install and pack what it adds to an image."""

import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from packaging.pylock import Pylock
from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem, StepError
from lumicontainer.extending.container import FOLDER, SOURCES, open_container, working_folder
from lumicontainer.extending.facts import Facts, image_id, read_facts
from lumicontainer.extending.image_state import ImageState, look_at_image, read_image_state
from lumicontainer.extending.install.installation import Installation
from lumicontainer.extending.lock.hashes import require_hashes
from lumicontainer.extending.modules import require_modules
from lumicontainer.extending.reading.additions import Additions
from lumicontainer.extending.reading.indexes import with_indexes
from lumicontainer.extending.record import NAME, Record, extension_key, read_record
from lumicontainer.extending.resolving import causes, conflicts
from lumicontainer.extending.resolving.extras import find_missing_extras
from lumicontainer.extending.resolving.left_out import find_left_out
from lumicontainer.extending.resolving.proven import prove_sources
from lumicontainer.extending.resolving.replaced import find_replaced, require_fitting
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution
from lumicontainer.extending.sources.prepare import (
    Prepared,
    PreparedSource,
    digest_of,
    prepare_sources,
)
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.host.site import Site, read_site, with_pip
from lumicontainer.host.uv import find_refusing_indexes
from lumicontainer.image import records, squashfs
from lumicontainer.packages.pylock import pylock_text
from lumicontainer.system import units
from lumicontainer.system.files import trust
from lumicontainer.system.files.partial import hold_folder, partial_file, remove_leftovers
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.temporary import remove_stale
from lumicontainer.system.files.write import replace, sync, write_whole
from lumicontainer.system.os_errors import refused
from lumicontainer.system.terminal.progress import Progress

_LARGEST = 16 << 20
"""Bytes of a file that describes the user's own code."""


class Order(NamedTuple):
    """Hold what a user orders: an image with more packages."""

    image: Path
    additions: Additions
    changeable: frozenset[str]
    """The packages of the image that may be replaced."""
    command: str
    build_date: str = ""
    """The date of a new image; empty for the old image's date, if it names one."""

    def key(self, digests: Sequence[str] | None = None) -> str:
        """Return the key of the extension.

        ``digests`` are its sources' if they were copied; otherwise they are read here.
        """
        added = self.additions
        if digests is None:
            digests = [digest_of(each) for each in added.references]
        files = {str(each): _setup(each) for each in added.code}
        inputs = {"lines": added.lines, "changeable": sorted(self.changeable), "code": files}
        hashes = {name: sorted(each) for name, each in added.hashes.items()}
        facts = read_facts(self.image)
        of_image = {"image": image_id(self.image), "protected": facts.protected()}
        places = [[*each, of] for each, of in zip(added.references, digests, strict=True)]
        origins = {"places": places, "indexes": added.indexes}
        return extension_key({**inputs, **origins, "hashes": hashes, **of_image})


def _setup(folder: Path) -> Mapping[str, str]:
    """Return the hashes of the files that decide the metadata of the user's own code."""
    names = ("pyproject.toml", "setup.py", "setup.cfg")
    return {each: _digest(folder / each) for each in names if (folder / each).is_file()}


def _digest(file: Path) -> str:
    try:
        with open_regular(file) as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise refused(error, "cannot read your own code", str(file)) from error
    if len(content) > _LARGEST:
        why, hint = (
            f"it has more than {units.size(_LARGEST)}",
            "name another folder: --editable DIR",
        )
        raise InputError(Problem("cannot read your own code", str(file), why, hint))
    return hashlib.sha256(content).hexdigest()


def is_current(order: Order, output: Path) -> bool:
    """Return whether a file is the ordered extension."""
    try:
        record, lock = read_record(output), _read_lock(lock_path(output))
    except (InputError, OSError):
        return False
    return record.key == order.key() and record.lock == hashlib.sha256(lock).hexdigest()


def lock_path(output: Path) -> Path:
    """Return the place of the lock of an extension; PEP 751 decides the form of its name."""
    return output.with_name(f"pylock.{output.stem.replace('.', '-')}.toml")


def head(output: Path) -> str:
    """Return how the lock of an extension begins; other locks begin otherwise."""
    return f"# lumicontainer extend wrote this lock of {output.name!a}.\n"


def check_output(output: Path, inputs: Sequence[Path]) -> None:
    """Raise ``InputError`` if an extension or its lock would replace another file.

    So it does if strangers could replace them, or have put files at their places.
    """
    for path, what in ((output, "the extension"), (lock_path(output), "its lock")):
        if problem := trust.doubt_output(path, what, "-o"):
            raise InputError(problem)
    if output.is_dir():
        what, hint = (
            "cannot write the extension",
            f"name a file: -o {shlex.quote(output.name)}.sqsh",
        )
        raise InputError(Problem(what, str(output), "it is a folder", hint))
    recorded = _read_recorded_lock(output) if os.path.lexists(output) else ""
    lock, hint = lock_path(output), "name another output with -o, or move the file"
    if not os.path.lexists(lock):
        return
    try:
        content = _read_lock(lock)
    except OSError as error:
        raise refused(error, "cannot read the old lock", str(lock), hint) from error
    if any(lock.samefile(each) for each in inputs):
        what, why = "the lock of the output is an input", "the new lock would replace it"
        raise InputError(Problem(what, str(lock), why, hint))
    own = content.startswith(head(output).encode())
    if not own and hashlib.sha256(content).hexdigest() != recorded:
        what, why = "the name of the lock is taken", f"the file is not the lock of {output.name}"
        raise InputError(Problem(what, str(lock), why, hint))


def _read_recorded_lock(output: Path) -> str:
    try:
        return read_record(output).lock
    except InputError as error:
        problem, what = error.problems[0], "the output is not an extension, and stays"
        hint = "name another output with -o, or move the file"
        raise InputError(Problem(what, str(output), problem.why or problem.what, hint)) from error


def _read_lock(lock: Path) -> bytes:
    with open_regular(lock) as file:
        return file.read()


def remove_leftovers_of(output: Path) -> None:
    """Remove what killed calls left: partial files of an output, and folders of all extensions."""
    remove_leftovers(output)
    remove_stale(FOLDER)


def make(order: Order, output: Path, progress: Progress) -> Record:
    """Write an extension and its lock; the old files stay until the new ones are whole.

    Raises ``InputError`` if the packages do not fit the image, ``StepError`` if one cannot be
    built, and ``SpaceError`` on a full disk.
    """
    with (
        build_extension(order, output, progress) as (tree, lock, record, _),
        partial_file(output) as partial,
    ):
        try:
            with progress.step("pack"):
                squashfs.pack_as_root(tree, partial, squashfs.form_of(order.image)[0])
            sync(partial)
            with hold_folder(output.parent):
                write_whole(lock_path(output), lock.encode())
                replace(partial, output)
        except OSError as error:
            raise refused(error, "cannot write the extension", str(output)) from error
    return record


class Built(NamedTuple):
    """Hold the tree of an extension, the text of its lock, its record, and its image."""

    tree: Path
    lock: str
    record: Record
    before: ImageState


@contextmanager
def build_extension(
    order: Order,
    output: Path,
    progress: Progress,
    begin: Callable[[ImageState, str], object] = lambda *_: None,
) -> Iterator[Built]:
    """Yield an extension that is not packed; raise ``LockError`` if its image was replaced.

    ``begin`` gets the image and the key of the extension before its packages are chosen.
    """
    with working_folder() as folder:
        site = _site_of(order, progress)
        seen = look_at_image(order.image)
        prepared = _prepare(order, folder, site, progress)
        # Later files may change: the user's, or the files of code whose backend runs.
        key = order.key([each.digest for each in prepared.sources])
        container = open_container(order.image, folder, site, order.additions.code)
        with progress.step("resolve") as task:
            before = read_image_state(order.image, seen)
            facts = before.facts
            _say_source(order.image, facts, progress)
            _check(order, facts)
            begin(before, key)
            resolution = Resolution(container, facts, task.line)
            prepared = prepared.with_names(partial(_name_source, resolution))
            chosen = _resolve(resolution, order, prepared, progress)
        lock = f"{head(output)}{pylock_text(prepared.named_in(chosen))}"
        count = units.count(len(chosen.packages), "package")
        with progress.step(f"install {count}") as task:
            installation = Installation(container, facts, task.line)
            indexed = "extra-index-url" in container.site.pip
            hint = hint_of_index(_pytorch_index(order.image), order.command, indexed=indexed)
            _install(installation, chosen, order, prepared, hint)
        packages = installation.distributions()
        for warning in facts.hidden(packages):
            progress.say(str(warning))
        record = _record_of(order, key, before, packages, lock)
        (installation.tree / NAME).write_bytes(record.content())
        installation.tree.chmod(0o755)
        before.require_same()
        yield Built(installation.tree, lock, record, before)


def _install(
    installation: Installation, chosen: Pylock, order: Order, prepared: Prepared, hint: str
) -> None:
    """Install the chosen packages; raise ``StepError`` or ``InputError`` if they cannot work."""
    installation.install(chosen)
    installation.require_no_hiding(order.changeable)
    installation.require_fitting_libraries(order.changeable, hint)
    own = {each.name for each in chosen.packages if each.directory}
    requested = {*_names((*order.additions.lines, *prepared.lines))}
    require_modules(installation.tree, own, requested)


def _record_of(
    order: Order, key: str, before: ImageState, packages: Mapping[str, str], lock: str
) -> Record:
    return Record(
        key=key,
        image=order.image.name,
        identity=before.identity,
        packages=packages,
        code=tuple(map(str, order.additions.code)),
        command=order.command,
        protected=before.facts.protected(),
        lock=hashlib.sha256(lock.encode()).hexdigest(),
    )


def _site_of(order: Order, progress: Progress) -> Site:
    """Return this host's settings with the indexes that files of requirements add."""
    site = read_site("", read_mirrors(()))
    for note in order.additions.notes:
        progress.say(f"note: {note}")
    for name, value in order.additions.indexes:
        progress.say(f"note: a file of requirements sets {name} to {value}")
    return with_pip(site, with_indexes(site.pip, order.additions.indexes))


def _prepare(order: Order, folder: Path, site: Site, progress: Progress) -> Prepared:
    if not order.additions.references:
        return Prepared()
    with progress.step(units.count(len(order.additions.references), "source")):
        sources = folder / SOURCES
        sources.mkdir()
        return prepare_sources(order.additions.references, sources, site, progress.say)


def _name_source(resolution: Resolution, source: PreparedSource) -> str:
    try:
        return resolution.name_source(source.file)
    except Refusal as error:
        place = source.reference.git or source.reference.path
        what, hint = (
            "cannot build the source in the image",
            "read its message, and correct its build",
        )
        raise StepError(Problem(what, place, causes.last_lines(error.text), hint)) from error


def _resolve(
    resolution: Resolution, order: Order, prepared: Prepared, progress: Progress
) -> Pylock:
    question = Question((*order.additions.lines, *prepared.lines), order.changeable)
    hashes, strict = order.additions.hashes, order.additions.requires_hashes
    try:
        question = prove_sources(resolution, question, hashes)
        lock = require_hashes(resolution.lock(question), hashes, strict=strict)
    except Refusal as error:
        raise conflicts.explain(resolution, question, error) from error
    facts, versions = resolution.facts, resolution.versions(lock)
    require_fitting(lock, facts.packages, _accelerator(order.image, facts))
    lines = question.named or question.lines
    problems = [*find_missing_extras(resolution, lines)]
    if names := [*_names(causes.registry_lines(lines)), *versions]:
        problems += find_refusing_indexes(resolution.container.site, names[0])
    problems += find_left_out(resolution, question, versions)
    if errors := [each for each in problems if each.level == "error"]:
        raise InputError(*errors)
    for warning in problems:
        progress.say(str(warning))
    return lock


def _names(lines: Iterable[str]) -> Iterator[str]:
    """Yield the packages that requirements name."""
    for each in lines:
        with suppress(InvalidRequirement):  # A folder of the user's own code.
            yield normal(Requirement(each).name)


def _accelerator(image: Path, facts: Facts) -> str:
    """Return the accelerator of an image; PyTorch's libraries tell it if there is no record."""
    if records.is_recorded(image):
        return str(records.resolved(image)["platform"]["accelerator"])
    return "rocm" if any("_hip." in each for each in facts.libraries) else ""


def _pytorch_index(image: Path) -> str:
    """Return the index from which an image has its PyTorch; empty if no record names it."""
    layers = records.resolved(image)["layers"] if records.is_recorded(image) else {}
    return str(layers.get("pytorch", {}).get("parameters", {}).get("index", ""))


def hint_of_index(index: str, command: str, *, indexed: bool) -> str:
    """Return how to get packages for the build of PyTorch that ``index`` has.

    The variable would replace an ``extra-index-url`` of pip's configuration, so with one
    (``indexed``) the index is to be added there.
    """
    if index and not indexed:
        return f"take it from PyTorch's index: PIP_EXTRA_INDEX_URL={shlex.quote(index)} {command}"
    named = index or "an index with it for the image's torch"
    return f"add {named} to extra-index-url of pip's configuration, or leave it out"


def _say_source(image: Path, facts: Facts, progress: Progress) -> None:
    if not records.is_recorded(image):
        count = units.count(len(facts.packages), "package")
        progress.say(
            f"{image.name} has no record of lumicontainer: its python3 lists Python {facts.python}"
            f" and {count}"
        )


def _check(order: Order, facts: Facts) -> None:
    """Raise ``InputError`` if the image cannot meet what is ordered."""
    if order.additions.python not in ("", facts.python):
        what = f"the environment needs Python {order.additions.python}"
        hint = f"build an image with it, or write python={facts.python}"
        raise InputError(Problem(what, why=f"the image has {facts.python}", hint=hint))
    if unknown := sorted(order.changeable - set(facts.packages)):
        what = f"the image has no package '{unknown[0]}' that could change"
        raise InputError(Problem(what, str(order.image), hint="lumicontainer inspect --packages"))
    lines = order.additions.lines
    requirements = map(Requirement, causes.registry_lines(lines))
    brought = [need for each in requirements for need in facts.needs_of_extras(each)]
    if replaced := list(find_replaced([*lines, *brought], facts.packages)):
        raise InputError(*replaced)
