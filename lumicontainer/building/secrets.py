"""Pass secret files to steps, and keep them out of layers, keys, logs and images."""

import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

from lumicontainer.core.plan.steps import Plan
from lumicontainer.engines.apptainer import DIVIDERS
from lumicontainer.errors import InputError, Problem, did_you_mean
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.masking import SHORTEST

_LARGEST = 1 << 20
_GIVEN = re.compile(r"id=(?P<id>[^,]+),src=(?P<src>.+)")


def read_secrets(words: Iterable[str], plan: Plan) -> dict[str, Path]:
    """Return the files of the options ``--secret`` by id.

    Raises ``InputError`` with all invalid options and files, and all secrets that are missing or
    that no layer requires.
    """
    steps = {secret: step.name for step in plan.steps for secret in step.secrets}
    secrets, problems = {}, []
    for text in words:
        match = _GIVEN.fullmatch(text)
        if match is None:
            hint = "write --secret id=NAME,src=FILE, with a file that holds the secret alone"
            problems.append(Problem(f"invalid secret '{text}'", "--secret", hint=hint))
            continue
        # Path.expanduser raises where there is no such user.
        secret, path = match["id"], Path(os.path.expanduser(match["src"])).absolute()  # noqa: PTH111
        if secret not in steps:
            what = f"no layer requires the secret '{secret}'"
            alone = f"leave --secret out, or write 'secrets: [{secret}]' into a layer that uses it"
            hint = did_you_mean(secret, steps) or alone
            problems.append(Problem(what, "--secret", hint=hint))
        problems += _unfit(path)
        secrets[secret] = path
    for secret in steps.keys() - secrets.keys():
        what = f"the layer '{steps[secret]}' requires the secret '{secret}'"
        problems.append(Problem(what, hint=f"add --secret id={secret},src=FILE"))
    if problems:
        raise InputError(*problems)
    for path in secrets.values():
        masking.hide_file(path.read_bytes())
    return secrets


def _unfit(path: Path) -> list[Problem]:
    what = "cannot use the file of a secret"
    if any(each in str(path) for each in DIVIDERS):
        why = "',' and ':' separate options of the engine"
        return [Problem(what, str(path), why, "rename it")]
    try:
        size = path.stat().st_size if path.is_file() else -1
        if 0 < size <= _LARGEST and len(path.read_bytes().strip()) >= SHORTEST:
            return []
        why = f"expected a file of {SHORTEST} characters to 1 MiB"
    except OSError as error:
        why = error.strerror or str(error)
    return [Problem(what, str(path), why, "name the file that holds the secret: src=FILE")]


def leaks(wheel: Path) -> list[str]:
    """Return the files of a wheel that contain a secret in their name or content.

    For the wheel's own name and for another file, return its name.
    """
    if not masking.searched():
        return []
    return list(dict.fromkeys(name for name, part in _parts(wheel) if masking.holds_in(part)))


def _parts(wheel: Path) -> Iterator[tuple[str, IO[bytes]]]:
    yield wheel.name, BytesIO(os.fsencode(wheel.name))
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield wheel.name, BytesIO(archive.comment)
            for name in archive.namelist():
                yield name, BytesIO(name.encode())
                with archive.open(name) as file:
                    yield name, file
    except zipfile.BadZipFile:
        with wheel.open("rb") as file:
            yield wheel.name, file
