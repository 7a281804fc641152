"""Read the records of an image and check them against schemas.

The bytes of an image may be damaged or come from anywhere. A returned record has the types of its
schema, is nested at most 32 deep, and can be written as UTF-8 and as JSON. A schema ignores unknown
names, because a later lumicontainer may add some.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, cast

from lumicontainer.constants import HOME, LONGEST_CHECK, OPEN_PATH, STEM
from lumicontainer.errors import InputError, Problem
from lumicontainer.image import build_date as date
from lumicontainer.image import inspect as images
from lumicontainer.inside.verify.options import LEVELS
from lumicontainer.inside.verify.outcome import OUTCOMES, from_plain

Schema: TypeAlias = Any
"""A ``Kind``; ``[schema]`` for a list; ``(schema, ...)`` for a list with one schema a position; a
frozenset of words; ``Nullable``; a ``Table``; or a mapping of names to schemas, of which one that
ends in ``?`` may be missing."""

_DEPTH = 32
_BITS = 64
OPEN_ABSOLUTE = rf"/[A-Za-z0-9._/+-]*|{OPEN_PATH}"
"""A path, or a library of the host by a variable."""
_NAMES = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}
_NAMES |= {int: "a number", float: "a number", NoneType: "null"}


class RecordError(ValueError):
    """A record does not match its schema."""


class Kind(NamedTuple):
    """Accept values of some types, and name them in messages."""

    words: str
    types: frozenset[type]
    form: str = ""
    """The pattern that the whole of a text must match; empty if any text does."""
    range: tuple[float, float] = (-math.inf, math.inf)
    """The least and the most of a number."""


class Table(NamedTuple):
    """Accept a mapping of which every name and every value is of a kind."""

    names: Kind
    values: Any


class Nullable(NamedTuple):
    """Accept null too."""

    schema: Schema


_STR = frozenset({str})
_ANY: frozenset[type] = frozenset({str, bool, int, float, NoneType})
TEXT = Kind("text", _STR)
LINE = Kind("a line of text", _STR, r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")
VALUE = Kind("a text without NUL", _STR, r"[^\0]*")
"""A variable's value."""
VARIABLE = Kind("the name of a variable", _STR, r"[A-Za-z_][A-Za-z0-9_]*")
NAME = Kind("a name", _STR, STEM)
"""A recipe, a profile, a platform, a layer."""
WORD = Kind("a word", _STR, r"[A-Za-z0-9_.-]*")
PACKAGE = Kind("the name of a package", _STR, r"[A-Za-z0-9_][A-Za-z0-9_.+:-]*")
VERSION = Kind("a version", _STR, r"[A-Za-z0-9_.+:~!*/-]*")
ABSOLUTE = Kind("an absolute path of plain characters", _STR, OPEN_ABSOLUTE)
ABSOLUTE_FOLDER = Kind(
    *("an absolute path of plain characters", _STR),
    r"(?=.{2,1024}$)(/(?!\.{1,2}(/|$))[A-Za-z0-9._+-]{1,255})+",
)
"""A path that is written in a layer, at the length that every file system takes."""
INNER = Kind("a relative path", _STR, r"(?!/)(?!(.*/)?\.\.(/|$))[A-Za-z0-9_./+-]+")
PATH = Kind(
    *("an absolute path without ',' and ':'", _STR),
    r"(/(?!\.{1,2}(/|$))[^/,:\x00-\x1f\x7f-\x9f\u2028\u2029]+)+",
)
"""A path that an engine binds, as \"SOURCE:TARGET,…\"."""
MODULE = Kind("the name of a module", _STR, r"[A-Za-z_][A-Za-z0-9_.]*")
DIGEST = Kind("hexadecimal digits", _STR, r"[0-9a-f]*")
FLAG = Kind("true or false", frozenset({bool}))
_COUNT = Kind("a number of at least 0", frozenset({int}), range=(0, 1 << 31))
_SECONDS = Kind(f"seconds from 1 to {LONGEST_CHECK}", frozenset({int}), range=(1, LONGEST_CHECK))
_SCALAR = Kind("a text, number, true or false", _ANY, VALUE.form)
_VERSION = Kind("a version", _ANY, VERSION.form)
_BIND = {"path": ABSOLUTE, "reason?": LINE, "source?": LINE}
_LAYER = {
    "parameters": Table(VARIABLE, _SCALAR),
    "origins": Table(VARIABLE, LINE),
    "version": _VERSION,
    "environment?": Table(VARIABLE, VALUE),
    "provides?": Table(NAME, _VERSION),
    "path?": [ABSOLUTE],
    "prepend?": Table(VARIABLE, [ABSOLUTE]),
    "packages?": Table(WORD, [LINE]),
}
RESOLVED: Schema = {
    "recipe": NAME,
    "summary": LINE,
    "platform": {"name": NAME, "accelerator": WORD},
    "layers": Table(NAME, _LAYER),
    "omitted": Table(NAME, LINE),
    "profile?": NAME,
    "base?": Table(WORD, LINE),
    "binds?": [_BIND],
    "host_libraries?": [_BIND],
}
_CHECK = {
    "name": Kind("the name of a check", _STR, rf"{STEM}/{STEM}"),
    **dict.fromkeys(("summary", "hint"), LINE),
    "file": INNER,
    "timeout_seconds": _SECONDS,
    "level": frozenset(LEVELS),
    "runs?": WORD,
    "needs?": Table(WORD, Kind("a word or a number", _ANY, WORD.form)),
    "imports?": [MODULE],
    "start_modes?": [WORD],
    "thresholds?": Table(VARIABLE, Table(WORD, Kind("a line or a number", _ANY, LINE.form))),
}
CHECKS: Schema = [_CHECK]
_ELF = {
    "soname": TEXT,
    "requires": [(TEXT, TEXT, FLAG)],
    "undefined": [(TEXT, TEXT, TEXT, FLAG)],
    **{name: [TEXT] for name in ("needed", "rpath", "runpath", "provides", "defined")},
}
ANSWER: Schema = {"folders": [TEXT], "libraries": Table(TEXT, {"path": TEXT, "elf": _ELF})}
"""The output of ``elf.loader.describe`` in the image."""
RESULTS: Schema = {
    "checks": [{name: _CHECK[name] for name in ("name", "summary", "hint", "level")}],
    "counts": dict.fromkeys(OUTCOMES, _COUNT),
    "interrupted?": TEXT,
    "place": {
        **dict.fromkeys(("host", "architecture", "network?"), LINE),
        **dict.fromkeys(("nodes", "ranks", "gpus"), _COUNT),
    },
}
"""The report of lumi-verify; ``outcome.from_plain`` judges the rest of each row."""
PACKAGES: Schema = Table(WORD, Table(PACKAGE, VERSION))
_LISTED: Schema = dict.fromkeys(("system", "python"), Table(TEXT, Nullable(TEXT)))
_ATTRIBUTES = {"labels?": Nullable(Table(TEXT, _SCALAR)), "deffile?": Nullable(TEXT)}
METADATA: Schema = {"data?": Nullable({"attributes?": Nullable(_ATTRIBUTES)})}
"""Metadata that an engine wrote; any of it may be null."""

KERNEL_NAMES = ("debugger", "supported_encryption")
"""Metadata of a kernel; Jupyter starts host code for others, such as ``kernel_provisioner``."""
KERNEL: Schema = {"debugger?": FLAG, "supported_encryption?": [WORD]}
"""The metadata that ipykernel 7.4 states (its ``kernelspec.py``)."""


def require_schema(schema: Schema, value: Any, where: str) -> None:
    """Raise ``RecordError`` if a value does not match a schema."""
    if isinstance(schema, Kind):
        _require_kind(schema, value, where)
    elif isinstance(schema, Nullable):
        if value is not None:
            require_schema(schema.schema, value, where)
    elif isinstance(schema, frozenset):
        require_schema(TEXT, value, where)
        if value not in schema:
            known = ", ".join(word for word in LEVELS if word in schema)
            raise RecordError(f"{where}: expected one of {known}, got {value[:40]!r}")
    elif isinstance(schema, Table | dict):
        _expect(isinstance(value, dict), "a mapping", value, where)
        require: Any = _require_rows if isinstance(schema, Table) else _require_names
        require(schema, value, where)
    else:
        _expect(isinstance(value, list), "a list", value, where)
        row = schema * len(value) if isinstance(schema, list) else schema
        if len(row) != len(value):
            raise RecordError(f"{where}: expected {len(row)} values, got {len(value)}")
        for position, (each, item) in enumerate(zip(row, value, strict=True)):
            require_schema(each, item, f"{where}[{position}]")


def _require_kind(kind: Kind, value: Any, where: str) -> None:
    _expect(type(value) in kind.types, kind.words, value, where)
    if kind.form and isinstance(value, str) and not re.fullmatch(kind.form, value):
        raise RecordError(f"{where}: expected {kind.words}, got {value[:40]!a}")
    least, most = kind.range
    if isinstance(value, int | float) and not least <= value <= most:
        raise RecordError(f"{where}: expected {kind.words}, got {value!s:.40}")


def _require_rows(table: Table, value: Mapping[str, Any], where: str) -> None:
    for name, each in value.items():
        _require_kind(table.names, name, f"a name in {where or 'the record'}")
        require_schema(table.values, each, _below(where, name))


def _require_names(schema: Mapping[str, Schema], value: Mapping[str, Any], where: str) -> None:
    for name, each in schema.items():
        bare = name.removesuffix("?")
        if bare == name and name not in value:
            raise RecordError(f"{_below(where, name)} is missing")
        if bare in value:
            require_schema(each, value[bare], _below(where, bare))


def _below(where: str, name: str) -> str:
    return f"{where}.{name[:60]}" if where else name[:60]


def _expect(matches: bool, kind: str, value: Any, where: str) -> None:
    if not matches:
        raise RecordError(f"{where or 'the record'}: expected {kind}, got {_NAMES[type(value)]}")


def parse(content: bytes, schema: Schema) -> Any:
    """Return the content of a record; raise ``RecordError`` if it does not match ``schema``."""
    try:
        value = json.loads(content)
        # Infinite numbers and lone surrogates could not be written.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise RecordError(f"it is not JSON: {why[:200]}") from error
    require_schema(schema, value, "")
    _check_limits(value, 0)
    return value


def _check_limits(value: Any, depth: int) -> None:
    if depth > _DEPTH:
        raise RecordError(f"it is nested more than {_DEPTH} deep")
    # Larger ones do not fit a float, and take long to print.
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise RecordError(f"it has a number of more than {_BITS} bits")
    below = value.values() if isinstance(value, dict) else value
    for each in below if isinstance(value, dict | list) else ():
        _check_limits(each, depth + 1)


class Metadata(NamedTuple):
    """Hold the metadata object of an image, which the engines' ``inspect`` shows."""

    labels: Mapping[str, Any] = {}
    definition: str | None = None


def metadata(image: Path) -> Metadata:
    """Return the metadata of an image; raise ``InputError`` if they are damaged."""
    content = images.metadata_bytes(image)
    if content is None:
        return Metadata()
    data = _read(image, content, METADATA, images.METADATA)
    attributes = (data.get("data") or {}).get("attributes") or {}
    return Metadata(attributes.get("labels") or {}, attributes.get("deffile"))


def labels(image: Path) -> Mapping[str, Any]:
    """Return the labels of an image."""
    return metadata(image).labels


def key(image: Path) -> str:
    """Return the key of the plan that an image was built from; empty if it has none."""
    return str(labels(image).get(images.KEY_LABEL, ""))


def build_date(image: Path) -> str:
    """Return the date that the labels of an image name; empty if they name none."""
    return str(labels(image).get(date.LABEL) or "")


def checked(image: Path) -> bool:
    """Return whether an image was built without ``--no-verify``."""
    return labels(image).get(images.CHECKED_LABEL) != "no"


def resolved(image: Path) -> Mapping[str, Any]:
    """Return the resolved recipe of an image; raise ``InputError`` if it has none."""
    return cast(Mapping[str, Any], _of(image, "resolved.json", RESOLVED))


def is_recorded(image: Path) -> bool:
    """Return whether an image has a record of lumicontainer; another program builds without."""
    return images.read_file(image, f"{HOME[1:]}/resolved.json") is not None


def checks(image: Path) -> Sequence[Mapping[str, Any]]:
    """Return the descriptions of an image's checks; raise ``InputError`` if it has none."""
    return cast(Sequence[Mapping[str, Any]], _of(image, "checks.json", CHECKS))


def packages(image: Path) -> Mapping[str, Mapping[str, str]]:
    """Return package versions by kind and name; raise ``InputError`` if it has none."""
    return cast(Mapping[str, Mapping[str, str]], _of(image, "packages.json", PACKAGES))


def require_list_of_packages(image: Path) -> None:
    """Raise ``InputError`` if a new image has no list of packages; their names may be odd."""
    _of(image, "packages.json", _LISTED)


def recipe(image: Path) -> str:
    """Return the recipe that an image was built from; raise ``InputError`` if it has none."""
    try:
        return images.read_recorded(image, "recipe.yaml").decode()
    except UnicodeDecodeError as error:
        raise _damaged(image, f"{HOME}/recipe.yaml", "it has text that is not UTF-8") from error


def answer(image: Path, content: bytes) -> Mapping[str, Any]:
    """Return the libraries that a program in an image listed; raise ``InputError`` if invalid."""
    what = "the libraries that its python3 lists"
    return cast(Mapping[str, Any], _read(image, content, ANSWER, what))


def _of(image: Path, name: str, schema: Schema) -> Any:
    return _read(image, images.read_recorded(image, name), schema, f"{HOME}/{name}")


def _read(image: Path, content: bytes, schema: Schema, name: str) -> Any:
    try:
        return parse(content, schema)
    except RecordError as error:
        raise _damaged(image, name, str(error)) from error


def _damaged(image: Path, name: str, why: str) -> InputError:
    hint = "lumicontainer inspect --check finds changed bytes; rebuild the image"
    return InputError(Problem("a record of the image is damaged", f"{image}: {name}", why, hint))


def read_results(text: bytes) -> Mapping[str, Any] | None:
    """Return the report that lumi-verify printed; None if it is invalid."""
    try:
        data: Mapping[str, Any] = parse(text, RESULTS)
        for each in data["checks"]:
            from_plain(each)
    except ValueError:
        return None
    return data
