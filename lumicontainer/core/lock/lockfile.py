"""Read and write locks: the same lock is the same text, and the text reads as the same lock."""

from __future__ import annotations

from math import inf
from typing import Any

import yaml

from lumicontainer.core.lock.lock import Entry, Lock, in_order
from lumicontainer.core.nodes import Node
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
from lumicontainer.core.schema.yaml_nodes import parse
from lumicontainer.errors import Problems

_HEAD = """\
# yaml-language-server: $schema=../schemas/lock.json
# `lumicontainer lock` writes this file; `lumicontainer build --locked` installs these pins only.
# `origin` is where a pin was found. A `dependency` is needed by others, not named by the recipe.
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
        "file": readers.line,
        "pin": validators.raw,
        "origin": readers.line,
        "index": readers.matching(r"https://[A-Za-z0-9][A-Za-z0-9._~/%+:-]*", "a URL by https"),
        "dependency": readers.boolean,
        "unpinned": readers.line,
    },
)


@readers.described(
    {
        **readers.schema_of(_ENTRY),
        "allOf": [
            {"oneOf": [{"required": [kind]} for kind in KINDS]},
            {"oneOf": [{"required": [key]} for key in ("pin", "unpinned")]},
        ],
    }
)
def _entry(node: Node, problems: Problems) -> Entry | None:
    read = _ENTRY(node, problems)
    if read is None:
        return None
    kinds = [kind for kind in KINDS if kind in read]
    if len(kinds) != 1 or ("pin" in read) == ("unpinned" in read):
        wanted = f"one of the keys {', '.join(KINDS)}, and either 'pin' or 'unpinned'"
        problems.add(f"an entry of a lock has {wanted}", node.place, hint="lock the recipe again")
        return None
    kind, pin = kinds[0], ""
    if "pin" in read:
        pin = _PINS[kind](read["pin"][0], problems) or ""
    return Entry(
        kind,
        read[kind] or "",
        where=read.get("file") or "",
        pin=pin,
        origin=read.get("origin") or "",
        index=read.get("index") or "",
        dependency=bool(read.get("dependency")),
        open=read.get("unpinned") or "",
    )


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
    """Read a lock; add what is wrong with it to the problems."""
    before = len(problems.found)
    root = parse(text, file, problems)
    values: dict[str, Any] | None = LOCK(root, problems) if root else None
    if values is None or len(problems.found) > before:
        return None
    layers = {name: in_order(entries) for name, entries in values["layers"].items()}
    return Lock(values["recipe"], values["platform"], values.get("profile", ""), layers)


def text_of(lock: Lock) -> str:
    """Return a lock as YAML."""
    data: dict[str, Any] = {"recipe": lock.recipe, "platform": lock.platform}
    if lock.profile:
        data["profile"] = lock.profile
    data["layers"] = {
        layer: [_row(entry) for entry in in_order(entries)]
        for layer, entries in lock.layers.items()
    }
    return _HEAD + yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=inf)


def _row(entry: Entry) -> dict[str, str | bool]:
    row: dict[str, str | bool] = {
        entry.kind: entry.name,
        "file": entry.where,
        "dependency": entry.dependency,
        "pin": entry.pin,
        "origin": entry.origin,
        "index": entry.index,
        "unpinned": entry.open,
    }
    return {key: value for key, value in row.items() if value}


class _Dumper(yaml.SafeDumper):
    """Write the items of a list further right than its key, as people do in recipes."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        del indentless
        super().increase_indent(flow, indentless=False)

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Quote words that other readers of YAML than PyYAML take for numbers and the like."""
        style = '"' if readers.needs_quotes(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)
