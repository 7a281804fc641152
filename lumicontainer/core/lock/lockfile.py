"""Read and write locks: the same lock is the same text, and the text is the lock again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lumicontainer.core.lock.lock import Entry, Lock, in_order
from lumicontainer.core.resolve.inputs import (
    APT,
    DEBOOTSTRAP,
    GIT,
    IMAGE,
    KINDS,
    PYTHON,
    SDIST,
    URL,
)
from lumicontainer.core.schema import readers, validators
from lumicontainer.core.schema.contents import APT_PIN
from lumicontainer.core.schema.yaml_nodes import Node, Problems, parse
from lumicontainer.system.files.recipe_folder import display, read_text
from lumicontainer.system.files.user_cache import write_whole

_HEAD = """\
# yaml-language-server: $schema=../schemas/lock.json
# Found by `lumicontainer lock`, which writes it anew. `lumicontainer build --locked` takes what is
# pinned here and nothing else. `from` is what a pin was found in; a `dependency` is what the others
# need.
"""

_sha256 = readers.matching(r"[0-9a-f]{64}", "64 hexadecimal digits")
_PINS: dict[str, readers.Reader[str]] = {
    IMAGE: readers.matching(r"[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}", "image@sha256:…"),
    DEBOOTSTRAP: _sha256,
    APT: readers.matching(APT_PIN, "name=version"),
    PYTHON: readers.matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]* --hash=sha256:[0-9a-f]{64}",
        "name==version --hash=sha256:…",
    ),
    SDIST: _sha256,
    GIT: readers.matching(r"[0-9a-f]{40}", "40 hexadecimal digits"),
    URL: _sha256,
}
"""What a pin must look like: it reaches the shell and pip's requirements as it is."""
_ENTRY = readers.record(
    "an entry of a lock",
    {
        **dict.fromkeys(KINDS, readers.line),
        "where": readers.line,
        "pin": validators.raw,
        "from": readers.line,
        "index": readers.matching(r"https://[A-Za-z0-9][A-Za-z0-9._~/%+:-]*", "a URL by https"),
        "dependency": readers.boolean,
        "open": readers.line,
    },
)


@readers.described(
    {
        **readers.schema_of(_ENTRY),
        "allOf": [
            {"oneOf": [{"required": [kind]} for kind in KINDS]},
            {"oneOf": [{"required": [key]} for key in ("pin", "open")]},
        ],
    }
)
def _entry(node: Node, problems: Problems) -> Entry | None:
    read = _ENTRY(node, problems)
    if read is None:
        return None
    kinds = [kind for kind in KINDS if kind in read]
    if len(kinds) != 1 or ("pin" in read) == ("open" in read):
        wanted = f"one of the keys {', '.join(KINDS)}, and either 'pin' or 'open'"
        problems.add(f"an entry of a lock has {wanted}", node.place, hint="lock the recipe again")
        return None
    kind, pin = kinds[0], ""
    if "pin" in read:
        pin = _PINS[kind](read["pin"][0], problems) or ""
    more = {key: read[key] for key in ("where", "index", "dependency", "open") if read.get(key)}
    return Entry(kind, read[kind] or "", pin=pin, origin=read.get("from") or "", **more)


LOCK = readers.record(
    "a lock",
    {
        "recipe": validators.stem,
        "platform": validators.stem,
        "profile": validators.stem,
        "layers": readers.mapping(readers.sequence(_entry), key=validators.name),
    },
    required=("recipe", "platform", "layers"),
)


def read_lock(text: str, file: str, problems: Problems) -> Lock | None:
    """Read a lock, noting what is wrong with it."""
    before = len(problems.found)
    root = parse(text, file, problems)
    values: dict[str, Any] | None = LOCK(root, problems) if root else None
    if values is None or len(problems.found) > before:
        return None
    layers = {name: in_order(entries) for name, entries in values["layers"].items()}
    return Lock(values["recipe"], values["platform"], values.get("profile", ""), layers)


def open_lock(root: Path, name: str) -> Lock:
    """Read the lock ``name`` below ``root``; raise ``InputError`` where it is wrong."""
    problems = Problems()
    lock = read_lock(read_text(root, name), display(root / name), problems)
    problems.raise_if_any()
    assert lock is not None
    return lock


def text_of(lock: Lock) -> str:
    """Return a lock as YAML."""
    lines = [f"recipe: {_scalar(lock.recipe)}", f"platform: {_scalar(lock.platform)}"]
    if lock.profile:
        lines.append(f"profile: {_scalar(lock.profile)}")
    lines.append("layers:" if lock.layers else "layers: {}")
    for layer, entries in lock.layers.items():
        lines.append(f"  {_scalar(layer)}:" if entries else f"  {_scalar(layer)}: []")
        for entry in in_order(entries):
            first, *rest = _lines(entry)
            lines += [f"    - {first}", *(f"      {line}" for line in rest)]
    return _HEAD + "".join(f"{line}\n" for line in lines)


def _lines(entry: Entry) -> Iterator[str]:
    yield f"{entry.kind}: {_scalar(entry.name)}"
    if entry.where:
        yield f"where: {_scalar(entry.where)}"
    if entry.dependency:
        yield "dependency: true"
    told = {"pin": entry.pin, "from": entry.origin, "index": entry.index, "open": entry.open}
    yield from (f"{key}: {_scalar(value)}" for key, value in told.items() if value)


_WORD = r"(?:[A-Za-z0-9_./@+=,~-]|:(?=[^ ]))+"
_PLAIN = re.compile(rf"(?=[A-Za-z]){_WORD}(?: {_WORD})*")
_TAKEN_OTHERWISE = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}


def _scalar(value: str) -> str:
    """Return one line of printable text as YAML reads it back, quoted where it must be."""
    if _PLAIN.fullmatch(value) and value.lower() not in _TAKEN_OTHERWISE:
        return value
    return json.dumps(value, ensure_ascii=False)


def write_lock(lock: Lock, path: Path) -> None:
    """Write a lock, whole or not at all.

    Raises ``InputError`` where it could not be read again.
    """
    text, problems = text_of(lock), Problems()
    read_lock(text, display(path), problems)
    problems.raise_if_any()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
