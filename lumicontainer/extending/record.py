"""Describe an extension: the record in it, and the key that names its content."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.image import records
from lumicontainer.image.records import DIGEST, LINE, PACKAGE, PATH, VERSION, Table
from lumicontainer.system import budget, process
from lumicontainer.system.files.regular import kind
from lumicontainer.system.terminal.masking import hide_urls, masked

NAME = "lumicontainer.json"
_LIMITS = budget.QUESTION._replace(most=1 << 20)
_EXTEND = ["lumicontainer", "extend"]
FORM = 2
"""Counts the ways in which extensions were made: another way makes other keys."""
_SCHEMA: records.Schema = {
    **dict.fromkeys(("key", "identity"), DIGEST),
    **dict.fromkeys(("image", "command"), LINE),
    "packages": Table(PACKAGE, VERSION),
    "code": [PATH],
    "protected?": Table(PACKAGE, DIGEST),
    "lock?": DIGEST,
}


class Record(NamedTuple):
    """Hold what an extension says about itself."""

    key: str
    image: str
    """The name of the image's file."""
    identity: str
    """The identity of the image."""
    packages: Mapping[str, str]
    """The versions of its packages, by name."""
    code: tuple[str, ...]
    """The folders of the user's own code, which are bound at the same path."""
    command: str
    """The command that made it."""
    protected: Mapping[str, str] = {}
    """The sha256 of each protected package of the image, by name."""
    lock: str = ""
    """The sha256 of its lock."""

    def command_to_repeat(self) -> str:
        """Return the command that made it, or its form if the file states another one.

        The file may be a stranger's, and users paste the command.
        """
        with suppress(ValueError):
            words = shlex.split(self.command)
            if words[:2] == _EXTEND:
                return shlex.join(words)
        return "lumicontainer extend IMAGE PACKAGE -o FILE"

    def content(self) -> bytes:
        """Return the bytes of the record."""
        return f"{json.dumps(self._asdict(), indent=1, sort_keys=True)}\n".encode()


def extension_key(inputs: Mapping[str, Any]) -> str:
    """Return the key of an extension that is made of ``inputs``."""
    text = json.dumps({"form": FORM, **inputs}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_record(path: Path) -> Record:
    """Return the record of an extension; raise ``InputError`` for another file."""
    hint = "lumicontainer extend writes such files"
    try:
        other = kind(path.stat().st_mode)
    except OSError as error:
        why = error.strerror or ""
        raise InputError(Problem("extension not found", str(path), why, hint)) from error
    if other:
        what = f"expected the file of an extension, got {other}"
        raise InputError(Problem(what, str(path), hint="name a file"))
    try:
        command = ["unsquashfs", "-cat", str(path.absolute()), NAME]
        data = records.parse(process.capture_bytes(command, limits=_LIMITS), _SCHEMA)
    except (HostError, records.RecordError) as error:
        why = error.problems[0].why if isinstance(error, HostError) else str(error)
        raise InputError(Problem("the file is not an extension", str(path), why, hint)) from error
    fields = {name: data[name] for name in Record._fields if name in data}
    # Nothing removes a secret from a file that exists.
    hide_urls([data["command"]])
    return Record(**{**fields, "code": tuple(data["code"]), "command": masked(data["command"])})
