"""Mount extensions when an image starts."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from lumicontainer.engines.engine import require_option_path
from lumicontainer.errors import InputError, LockError, LumicontainerError, Problem
from lumicontainer.extending.facts import image_id, read_facts
from lumicontainer.extending.reading.additions import is_project
from lumicontainer.extending.record import Record, read_record
from lumicontainer.host.binds import Needs, Set
from lumicontainer.host.host_libraries import Mount
from lumicontainer.image import records

FOLDER = "/user-software"
MOST = 9
_PYTHONPATH = "PYTHONPATH"


def add_extensions(needs: Needs, image: Path, files: Sequence[Path]) -> Needs:
    """Return what an image needs with extensions, of which later ones win.

    Raises ``InputError`` for another file, and ``LockError`` if one was made for another image.
    """
    rows = [(file, read_record(file)) for file in files]
    own = image_id(image)
    if strange := [_other_image(file, each, image) for file, each in rows if each.identity != own]:
        raise LockError(*strange)
    mounts = [mount for number, pair in enumerate(rows, 1) for mount in _mounts(number, *pair)]
    unique = {mount.target: mount for mount in mounts}
    folders = [_folder(number) for number in range(len(files), 0, -1)]
    return needs._replace(
        mounts=(*needs.mounts, *unique.values()),
        variables=(*needs.variables, *_search_path(image, folders)),
        problems=(*needs.problems, *_collisions(rows)),
    )


def _mounts(number: int, file: Path, record: Record) -> Iterator[Mount]:
    source = require_option_path(file.absolute())
    count = len(record.packages)
    reason = f"{count} Python packages that come before the image's"
    yield Mount(source, _folder(number), reason, "image-src=/")
    for folder in record.code:
        # The record of a stranger could name any folder of the user.
        if not is_project(Path(folder)):
            what, why = "the code of an extension is not there", f"{file.name} refers to it"
            hint = "put it back there, or extend the image once more with --editable DIR"
            raise InputError(Problem(what, folder, why, hint))
        yield Mount(folder, folder, f"the code that {file.name} refers to")


def _folder(number: int) -> str:
    return FOLDER if number == 1 else f"{FOLDER}-{number}"


def _search_path(image: Path, folders: Sequence[str]) -> Iterator[Set]:
    """Yield the variable by which the Python of another program's image finds extensions."""
    if not folders or records.is_recorded(image) or (facts := read_facts(image)).extensible:
        return
    searched = [f"{each}/lib/python{facts.python}/site-packages" for each in folders]
    if value := os.environ.get(_PYTHONPATH):
        require_option_path(Path(value.replace(":", "/")))
        searched.append(value)
    yield Set(_PYTHONPATH, ":".join(searched), "the image does not look for extensions itself")


def _collisions(pairs: Sequence[tuple[Path, Record]]) -> Iterator[Problem]:
    seen: dict[str, tuple[Path, str]] = {}
    for file, record in pairs:
        for name, version in record.packages.items():
            first = seen.get(name)
            if first and first[1] != version:
                what = f"{file.name} has {name} {version}, and {first[0].name} has {first[1]}"
                why = f"programs get {version}, because {file.name} is named later"
                hint = "leave one of them out, or make one extension of both"
                yield Problem(what, why=why, hint=hint, level="warning")
            seen[name] = (file, version)


def _other_image(file: Path, record: Record, image: Path) -> Problem:
    what = f"{file.name} was made for another image"
    why = f"{image.name} was rebuilt since, or it was made for another {record.image}"
    if changed := ", ".join(_changed(record, image)):
        why += f"; the files of {changed} differ, and packages are compiled against them"
    return Problem(what, str(file), why, f"make it for this image: {record.command_to_repeat()}")


def _changed(record: Record, image: Path) -> Iterator[str]:
    """Yield the protected packages whose files changed, if the image can say so."""
    with suppress(LumicontainerError):
        facts = read_facts(image)
        for name, known in record.protected.items():
            if facts.protected().get(name) != known:
                package = facts.packages.get(name)
                yield f"{name} {package.version}" if package else name
