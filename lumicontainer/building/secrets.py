"""Pass secret files to steps, and keep them out of layers, keys, logs and images."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lumicontainer.core.plan.steps import Plan
from lumicontainer.engines.engine import DIVIDERS
from lumicontainer.errors import InputError, Problem, StepError, did_you_mean
from lumicontainer.system import budget, units
from lumicontainer.system.files.wheels import measure_wheel, open_wheel
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.masking import SHORTEST

_LARGEST = 1 << 20
_HINT = 'put only wheels into "$wheels" that pip can install'
_OPTION = re.compile(r"id=(?P<id>[^,]+),src=(?P<src>.+)")


def read_secrets(words: Iterable[str], plan: Plan) -> dict[str, Path]:
    """Return the files of the options ``--secret`` by id.

    Raises ``InputError`` with all invalid options and files, and all secrets that are missing or
    that no layer requires.
    """
    steps = {secret: step.name for step in plan.steps for secret in step.secrets}
    secrets, problems = {}, []
    for text in words:
        match = _OPTION.fullmatch(text)
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

    For the wheel's own name, return that. Raises ``StepError`` for a wheel that cannot be read.
    """
    if not masking.searched():
        return []
    names = [wheel.name] if masking.holds(os.fsencode(wheel.name)) else []
    size = measure_wheel(wheel, _HINT).size
    if size > budget.UNPACKED:
        what, why = f"the wheel {wheel.name} is too large", f"it unpacks to {units.size(size)}"
        raise StepError(Problem(what, why=why, hint=_HINT))
    return list(dict.fromkeys([*names, *_search(wheel)]))


def _search(wheel: Path) -> Iterator[str]:
    with open_wheel(wheel, _HINT) as archive:
        if masking.holds(archive.comment):
            yield wheel.name
        for each in archive.infolist():
            with archive.open(each) as file:
                if masking.holds(each.filename.encode()) or masking.holds_in(file):
                    yield each.filename
