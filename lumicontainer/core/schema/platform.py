"""Read a platform from its file: where it is, what its nodes are like, what its ranks need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from lumicontainer.core.model import Bind, CacheFolder, Discouraged, Gpu, Platform, Variable
from lumicontainer.core.nodes import Mapping, Node, Scalar
from lumicontainer.core.schema import readers
from lumicontainer.core.schema.validators import (
    BIND,
    absolute,
    accelerator,
    constant,
    printed,
    stem,
    variable,
)
from lumicontainer.core.schema.yaml_nodes import parse
from lumicontainer.errors import Place, Problems
from lumicontainer.inside.rank import variables as inside
from lumicontainer.inside.version_range import Limit
from lumicontainer.inside.version_range import parse as parse_range

RUNTIMES = ("apptainer", "singularity")
"""Programs that run images; ``singularity`` is SingularityCE."""
PLACES = ("node", "scratch")
"""What a cache lies in: the node's own memory or disk, or the project's folder below /scratch."""
DEVICES = ("cxi",)
"""Classes of devices in the kernel."""
MOST_PROCESSORS = 8192
"""What Linux is built for at most on x86-64."""

_LIST = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")

_pci = readers.matching(
    r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", "a PCI address such as 0000:c1:00.0"
)
_prefix = readers.matching(r"[a-z][a-z0-9_-]*[a-z]|[a-z]", "what names such as hsn0 begin with")
_driver = readers.matching(r"[0-9]+(\.[0-9]+)*", "a version of the driver such as 6.3")
_word = readers.matching(r"[a-z0-9_=.-]+", "one word of --network")
_folder = readers.matching(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*", "a folder such as a/b")


@readers.described({"type": "string", "pattern": f"^{_LIST.pattern}$"})
def cpus(node: Node, problems: Problems) -> str | None:
    """Read a list of processors as the kernel writes it: ``49-55``, ``0,8,16``."""
    text = readers.text(node, problems)
    if text is None:
        return None
    if not _LIST.fullmatch(text):
        problems.add(f"a list of processors such as 1-7 is wanted here, not '{text}'", node.place)
        return None
    numbers = [number for first, last in _ranges(text) for number in (first, last)]
    if numbers != sorted(numbers) or numbers[-1] >= MOST_PROCESSORS:
        why = f"its numbers rise, and each is below {MOST_PROCESSORS}"
        problems.add(f"invalid list of processors '{text}'", node.place, why=why)
        return None
    return text


def _ranges(text: str) -> list[tuple[int, int]]:
    ends = (part.partition("-") for part in text.split(",") if part)
    return [(int(first), int(last or first)) for first, _, last in ends]


def _processors(text: str) -> set[int]:
    return {number for first, last in _ranges(text) for number in range(first, last + 1)}


@readers.described({"type": "integer", "minimum": 0})
def _numa(node: Node, problems: Problems) -> int | None:
    value = readers.integer(node, problems)
    if value is not None and value < 0:
        problems.add("NUMA nodes are counted from 0", node.place)
        return None
    return value


@readers.described({"type": "string", "minLength": 1})
def _limits(node: Node, problems: Problems) -> str | None:
    """Read a range of versions or numbers that something can lie in."""
    text = readers.text(node, problems)
    if text is None:
        return None
    try:
        limits = parse_range(text)
    except ValueError as error:
        problems.add("a range is wanted here", node.place, why=str(error))
        return None
    if _empty(limits):
        problems.add(f"nothing lies in the range '{text}'", node.place, hint="correct its limits")
        return None
    return text


@readers.described({"type": "string", "minLength": 1})
def _count(node: Node, problems: Problems) -> str | None:
    """Read a range of whole numbers."""
    text = _limits(node, problems)
    if text is not None and any(len(limit) > 1 for _, limit in parse_range(text)):
        problems.add(f"whole numbers are wanted here, not '{text}'", node.place)
        return None
    return text


def _whole(limits: Sequence[Limit]) -> list[Limit]:
    """Return limits of whole numbers so that none lies between two of them: >1 as >=2."""
    numbers = ((operator, limit[0] if limit else 0) for operator, limit in limits)
    moved = {">": (">=", 1), "<=": ("<", 1)}
    pairs = ((*moved.get(operator, (operator, 0)), number) for operator, number in numbers)
    return [(operator, (number + step,)) for operator, step, number in pairs]


def _empty(limits: Sequence[Limit]) -> bool:
    lows = [(limit, operator == ">") for operator, limit in limits if operator[0] == ">"]
    highs = [(limit, operator == "<=") for operator, limit in limits if operator[0] == "<"]
    if not lows or not highs:
        return False
    (low, above), (high, included) = max(lows), min(highs)
    return low > high or (low == high and (above or not included))


@readers.described(
    {"type": "string", "pattern": f"^(?:{inside.ANY}|(?:{'|'.join(inside.PLUGINS)})(?: .+)?)$"}
)
def _plugin(node: Node, problems: Problems) -> str | None:
    """Read ``any``, the name of a plugin's layer, or that with a range."""
    text = readers.line(node, problems)
    if text is None:
        return None
    plugin, space, limits = text.partition(" ")
    known = readers.choice(inside.PLUGINS if space else (inside.ANY, *inside.PLUGINS))
    read = known(_part(node, plugin), problems)
    if space and _limits(_part(node, limits), problems) is None:
        return None
    return text if read else None


def _part(node: Node, text: str) -> Node:
    return Scalar(node.place, text, plain=False)


CONDITIONS: dict[str, readers.Reader[str]] = {
    "rocm": _limits,
    "plugin": _plugin,
    "pytorch": _limits,
    "libfabric": _limits,
    "slingshot": _limits,
    "nodes": _count,
    "ranks": _count,
    "device": readers.choice(DEVICES),
    "network": _word,
}
"""How what follows each condition is read."""


_GPU = readers.record(
    "a gpu",
    {"pci": _pci, "cores": cpus, "reserved": cpus, "numa": _numa},
    required=("pci", "cores", "numa"),
)
_VARIABLE = readers.record(
    "a variable",
    {
        "name": readers.with_place(constant),
        "value": readers.line,
        "value_from": readers.choice((inside.INTERFACES, inside.LOGS)),
        "reason": readers.line,
        "source": readers.line,
        "when": readers.record("when", CONDITIONS),
        "unless_set": readers.sequence(variable),
    },
    required=("name", "reason", "source"),
)
_DISCOURAGED = readers.record(
    "a discouraged variable",
    {
        "name": readers.with_place(variable),
        "values": readers.sequence(readers.line),
        "allowed_values": readers.sequence(readers.line),
        "when": readers.record("when", CONDITIONS),
        "reason": readers.line,
        "source": readers.line,
        "hint": readers.line,
    },
    required=("name", "reason", "source", "hint"),
)
_CACHE = readers.record(
    "a cache",
    {
        "name": readers.with_place(variable),
        "folder": _folder,
        "storage": readers.choice(PLACES),
        "reason": readers.line,
        "source": readers.line,
    },
    required=("name", "folder", "storage", "reason", "source"),
)
_DETECT = readers.sequence(absolute)
PLATFORM = readers.record(
    "platform",
    {
        "summary": printed,
        "accelerator": accelerator,
        "profile": stem,
        "detect": _DETECT,
        "driver": _driver,
        "engine": readers.choice(RUNTIMES),
        "proot": readers.line,
        "binds": readers.sequence(BIND),
        "gpus": readers.sequence(readers.with_place(_GPU)),
        "interface_prefix": _prefix,
        "variables": readers.sequence(_VARIABLE),
        "discouraged": readers.sequence(_DISCOURAGED),
        "caches": readers.sequence(_CACHE),
    },
    required=("summary", "accelerator"),
)


def read_platform(text: str, file: str, problems: Problems, *, stem: str) -> Platform | None:
    """Read a platform; ``stem`` is its file's name without the suffix, and becomes its name."""
    before = len(problems.found)
    root = parse(text, file, problems)
    values = PLATFORM(root, problems) if root else None
    if values is None or len(problems.found) > before or root is None:
        return None
    _check_gpus(values.get("gpus", ()), problems)
    _check_variables(values, problems)
    _check_discouraged(values, problems)
    if len(problems.found) > before:
        return None
    return Platform(
        name=stem,
        place=root.place,
        summary=values["summary"],
        accelerator=values["accelerator"],
        detect=values.get("detect", ()),
        driver=values.get("driver", ""),
        profile=values.get("profile", ""),
        engine=values.get("engine", ""),
        proot=values.get("proot", ""),
        binds=tuple(Bind(**each) for each in values.get("binds", ())),
        gpus=tuple(Gpu(**each) for each, _ in values.get("gpus", ())),
        interface_prefix=values.get("interface_prefix", ""),
        variables=tuple(_variable(each) for each in values.get("variables", ())),
        discouraged=tuple(
            Discouraged(**{**each, "name": each["name"][0]})
            for each in values.get("discouraged", ())
        ),
        caches=tuple(
            CacheFolder(**{**each, "name": each["name"][0]}) for each in values.get("caches", ())
        ),
    )


def read_detect(text: str, file: str, problems: Problems) -> tuple[str, ...]:
    """Read the paths by which a platform is known, and nothing else of it.

    Every start asks this of every platform, and few need one whole: the tables of a large one
    take ten times as long.
    """
    root = parse(text, file, problems)
    entries = root.entries if isinstance(root, Mapping) else ()
    found = next((node for key, node in entries if key.text == "detect"), None)
    return (_DETECT(found, problems) or ()) if found else ()


def _variable(values: dict[str, Any]) -> Variable:
    rest = {key: value for key, value in values.items() if key not in ("name", "value_from")}
    return Variable(name=values["name"][0], value_from=values.get("value_from", ""), **rest)


def _check_gpus(gpus: Sequence[tuple[dict[str, Any], Place]], problems: Problems) -> None:
    """Note what two GPUs claim: the same address, or the same cores."""
    addresses: dict[str, Place] = {}
    owners: dict[int, Place] = {}
    reserved = {core for gpu, _ in gpus for core in _processors(gpu.get("reserved", ""))}
    for gpu, place in gpus:
        first = addresses.setdefault(gpu["pci"], place)
        if first is not place:
            why = f"the first is at line {first.line}"
            problems.add(f"the GPU {gpu['pci']} stands here twice", place, why=why)
        own = _processors(gpu["cores"])
        if own & reserved:
            why = "'reserved' keeps it for the system"
            problems.add(f"no rank may use {_words(own & reserved)}", place, why=why)
        shared = own & owners.keys()
        if shared:
            why = f"the GPU at line {owners[min(shared)].line} has them as well"
            hint = "give each core to the GPU next to it"
            problems.add(f"two GPUs share {_words(shared)}", place, why=why, hint=hint)
        owners |= dict.fromkeys(own, place)


def _words(cores: set[int]) -> str:
    return f"core{'s'[: len(cores) > 1]} {', '.join(map(str, sorted(cores)))}"


def _check_variables(values: dict[str, Any], problems: Problems) -> None:
    rows = values.get("variables", ())
    decided = _decided() if rows else set()
    for number, row in enumerate(rows):
        called, place = row["name"]
        if called in decided:
            why = "lumi-entry decides it from what the launcher sets"
            problems.add(f"a platform cannot set {called}", place, why=why, hint="leave it out")
        if ("value" in row) == ("value_from" in row):
            problems.add(f"'{called}' needs either 'value' or 'value_from'", place)
        if row.get("value_from") == inside.INTERFACES and "interface_prefix" not in values:
            hint = "add 'interface_prefix: …', what their names begin with"
            problems.add("the platform names no interfaces", place, hint=hint)
        _check_twice(row, rows[:number], problems)
    first: dict[str, Place] = dict(row["name"] for row in rows)
    for cache in values.get("caches", ()):
        called, place = cache["name"]
        if first.setdefault(called, place) is not place:
            why = f"the first is at line {first[called].line}"
            problems.add(f"'{called}' is set twice", place, why=why, hint="keep one of them")


def _check_discouraged(values: dict[str, Any], problems: Problems) -> None:
    """Note rows that say two things at once, or discourage what the platform itself sets."""
    from lumicontainer.inside.rank.discouraged import is_meant  # noqa: PLC0415 - as in _decided

    for row in values.get("discouraged", ()):
        called, place = row["name"]
        if "values" in row and "allowed_values" in row:
            why = "one says which values are meant, the other which are not"
            problems.add(f"'{called}' has both 'values' and 'allowed_values'", place, why=why)
            continue
        for each in values.get("variables", ()):
            if each["name"][0] != called or not is_meant(row, each.get("value", "")):
                continue
            if not _exclude(row.get("when", {}), each.get("when", {})):
                problems.add(
                    f"'{called}' is discouraged, and set to {each['value']}",
                    place,
                    why=f"the row at line {each['name'][1].line} may hold at the same time",
                    hint="give them conditions that exclude each other, such as <6.2 and >=6.2",
                )


def _decided() -> set[str]:
    """Return the names of the variables that lumi-entry finds by itself."""
    from lumicontainer.inside.entry.decide import SINGLE  # noqa: PLC0415 - 4 ms, for few platforms
    from lumicontainer.inside.launch.launchers import RANKS  # noqa: PLC0415

    return {*RANKS, *(name for name, _ in SINGLE)}


def _check_twice(row: dict[str, Any], before: Iterable[dict[str, Any]], problems: Problems) -> None:
    """Note where a variable has another row that may hold at the same time."""
    called, place = row["name"]
    for other in before:
        if other["name"][0] == called and not _exclude(row.get("when", {}), other.get("when", {})):
            problems.add(
                f"'{called}' is set twice",
                place,
                why=f"the row at line {other['name'][1].line} may hold at the same time",
                hint="give them conditions that exclude each other, such as <6.2 and >=6.2",
            )


def _exclude(one: dict[str, str], other: dict[str, str]) -> bool:
    """Return whether two sets of conditions never hold together."""
    for key in one.keys() & other.keys():
        both = one[key], other[key]
        if key == "plugin" and _plugins_exclude(*both):
            return True
        if CONDITIONS[key] in (_limits, _count):
            limits = [limit for text in both for limit in parse_range(text)]
            if _empty(limits if CONDITIONS[key] is _limits else _whole(limits)):
                return True
    return False


def _plugins_exclude(one: str, other: str) -> bool:
    (name, _, limits), (other_name, _, other_limits) = one.partition(" "), other.partition(" ")
    if inside.ANY in (name, other_name):
        return False
    if name != other_name:  # An image holds one plugin.
        return True
    both = bool(limits and other_limits)
    return both and _empty([*parse_range(limits), *parse_range(other_limits)])
