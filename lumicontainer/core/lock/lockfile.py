"""Read and write locks: the same lock is the same text, and the text reads as the same lock."""

from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, NamedTuple

import yaml

from lumicontainer.core.lock.lock import Lock, LockEntry, in_order
from lumicontainer.core.model.content import Line, Name
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
from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Node
from lumicontainer.core.yaml.parse import read_document
from lumicontainer.core.yaml.readers import (
    Reader,
    Text,
    described,
    matching,
    needs_quotes,
    schema_of,
)
from lumicontainer.core.yaml.record import record
from lumicontainer.errors import Problems

_HEAD = """\
# yaml-language-server: $schema=../schemas/lock.json
# `lumicontainer lock` writes this file; `lumicontainer build --locked` installs these pins only.
# `origin` is where a pin was found. A `dependency` is needed by others, not named by the recipe.
"""

_HASH = "--hash=sha256:[0-9a-f]{64}"
_PINS: dict[str, Reader[Text]] = {
    IMAGE: matching(r"[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64}", "image@sha256:…"),
    DEBOOTSTRAP: validators.sha256,
    APT: matching(validators.APT_PIN, "name=version"),
    PYTHON: matching(
        rf"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]* {_HASH}",
        "name==version --hash=sha256:…",
    ),
    SDIST: validators.sha256,
    GIT: matching(r"[0-9a-f]{40}", "40 hexadecimal digits"),
    URL: validators.sha256,
}
"""What a pin must look like: it reaches the shell and pip's requirements as it is."""


_INDEX = matching(r"https://[A-Za-z0-9][A-Za-z0-9._~/%+:-]*", "a URL by https")


class _Row(NamedTuple):
    image: Line = ""
    """The base image, as the layer names it."""
    debootstrap: Line = ""
    """The release of a base that debootstrap makes."""
    apt: Line = ""
    """A Debian package."""
    python: Line = ""
    """A Python package."""
    sdist: Line = ""
    """A source distribution, with its version."""
    git: Line = ""
    """The URL of a git repository."""
    url: Line = ""
    """The URL of a file."""
    file: Line = ""
    """The file of requirements that names it, or its name in `$sources`."""
    pin: Annotated[Node | None, validators.raw] = None
    """An image with its digest, `name=version` of apt, a line of pip's requirements with its hash,
    a commit of 40 digits, or a sha256."""
    origin: Line = ""
    """The place where the pin was found."""
    index_url: Annotated[str, _INDEX, "index"] = ""
    """The URL of its index of Python packages, where it is not the configured one."""
    dependency: bool = False
    """Whether another package needs it, and the recipe does not name it."""
    unpinned: Line = ""
    """The reason why there is no pin."""


_ROW = record("an entry of a lock", _Row)


@described(
    lambda: {
        **schema_of(_ROW),
        "allOf": [
            {"oneOf": [{"required": [kind]} for kind in KINDS]},
            {"oneOf": [{"required": [key]} for key in ("pin", "unpinned")]},
        ],
    }
)
def _entry(node: Node, problems: Problems) -> LockEntry | None:
    row = _ROW(node, problems)
    if row is None:
        return None
    kinds = [kind for kind in KINDS if getattr(row, kind)]
    if len(kinds) != 1 or bool(row.pin) == bool(row.unpinned):
        wanted = f"one of the keys {', '.join(KINDS)}, and either 'pin' or 'unpinned'"
        problems.add(f"an entry of a lock has {wanted}", node.place, hint="lock the recipe again")
        return None
    kind = kinds[0]
    pin = (row.pin and _PINS[kind](row.pin, problems)) or ""
    name = getattr(row, kind)
    return LockEntry(
        kind, name, row.file, pin, row.origin, row.index_url, row.dependency, row.unpinned
    )


class _Lock(NamedTuple):
    recipe: Annotated[str, validators.stem]
    """The recipe."""
    platform: Annotated[str, validators.stem]
    """The platform."""
    layers: Mapping[Name, tuple[Annotated[LockEntry, _entry], ...]]
    """The pins of each layer."""
    profile: Annotated[str, validators.stem] = ""
    """The profile."""


LOCK = record("a lock", _Lock)


def read_lock(text: str, file: str, problems: Problems) -> Lock | None:
    """Read a lock; add what is wrong with it to the problems."""
    found = read_document(LOCK, text, file, problems)
    if found is None:
        return None
    layers = {name: in_order(entries) for name, entries in found.layers.items()}
    return Lock(found.recipe, found.platform, found.profile, layers)


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


def _row(entry: LockEntry) -> dict[str, str | bool]:
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
        style = '"' if needs_quotes(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_representer(Text, _Dumper.represent_str)
