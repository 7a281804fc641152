"""Compare what two images, recipes, locks or profiles say, section by section."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lumicontainer.core.lock import Lock
from lumicontainer.core.model import Profile
from lumicontainer.core.model.source import APT, PYTHON
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.rules.rules import HOLDS
from lumicontainer.trust.statement import Provenance

LAYERS, PARAMETERS, VARIABLES = "layers", "parameters", "variables"
SYSTEM, PYTHON_PACKAGES, SOURCES = "system packages", "Python packages", "sources"
BINDS, LIBRARIES, RULES, FILE = "binds", "libraries of the host", "rules", "file"
SECTIONS = (
    *(FILE, LAYERS, PARAMETERS, SYSTEM, PYTHON_PACKAGES),
    *(SOURCES, VARIABLES, BINDS, LIBRARIES, RULES),
)
"""In the order in which they are shown."""
Section = Mapping[str, Any]
"""Values by name. A layer is a mapping with its ``version``, its ``bytes`` and its ``key``."""


@dataclass(frozen=True)
class Side:
    """Hold what is compared, without the sections about which nothing is known."""

    title: str
    sections: Mapping[str, Section] = field(default_factory=dict)


class Change(NamedTuple):
    """Hold one difference; ``before`` or ``after`` is None if one side does not have it."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Differences:
    """Hold the changes from one side to another by section; sections without any are missing."""

    before: str
    after: str
    sections: Mapping[str, Sequence[Change]]
    unknown: Sequence[str] = ()
    """The sections that one side alone knows about."""

    def as_data(self) -> dict[str, Any]:
        """Return them as ``lumicontainer diff --json`` prints them."""
        sections = {
            name: [change._asdict() for change in changes]
            for name, changes in self.sections.items()
        }
        sides = {"before": self.before, "after": self.after}
        return {**sides, "sections": sections, "not_compared": list(self.unknown)}


def compare_sides(one: Side, other: Side) -> Differences:
    """Return the differences of two sides."""
    both = [name for name in SECTIONS if name in one.sections and name in other.sections]
    changes = {name: [*_changes(one.sections[name], other.sections[name])] for name in both}
    filled = {name: rows for name, rows in changes.items() if rows}
    unknown = [name for name in SECTIONS if (name in one.sections) != (name in other.sections)]
    return Differences(one.title, other.title, filled, unknown)


def _changes(before: Section, after: Section) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if not _is_same(one, other):
            yield Change(name, one, other)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values agree in all that both say."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(one[key] == other[key] for key in one.keys() & other.keys())
    return bool(one == other)


def sections_of_record(record: Mapping[str, Any]) -> dict[str, Section]:
    """Return what the record of an image's decisions says (``resolved.json``)."""
    layers = record["layers"]
    return {
        LAYERS: {name: {"version": _text(each["version"])} for name, each in layers.items()},
        PARAMETERS: {
            f"{layer}.{name}": _text(value)
            for layer, each in layers.items()
            for name, value in each["parameters"].items()
        },
        VARIABLES: _variables(layers.values()),
        BINDS: {each["path"]: each.get("reason", "") for each in record.get("binds", ())},
        LIBRARIES: {
            each["path"]: each.get("reason", "") for each in record.get("host_libraries", ())
        },
    }


def _variables(layers: Any) -> dict[str, str]:
    """Return the variables that layers set, and the folders that they put before lists."""
    variables: dict[str, str] = {}
    for each in layers:
        variables.update(each.get("environment", {}))
        lists = {**each.get("prepend", {}), **({"PATH": each["path"]} if "path" in each else {})}
        for name, folders in lists.items():
            old = variables.get(name)
            variables[name] = ":".join([*folders, *([old] if old else [])])
    return variables


def stated_packages(record: Mapping[str, Any]) -> dict[str, Section]:
    """Return the packages that the layers of a record name."""
    kinds = {SYSTEM: ("apt", "="), PYTHON_PACKAGES: ("python", "==")}
    return {
        section: dict(
            _split(line, sign)
            for layer in record["layers"].values()
            for line in layer.get("packages", {}).get(kind, ())
        )
        for section, (kind, sign) in kinds.items()
    }


def _split(line: str, sign: str) -> tuple[str, str]:
    name, _, version = line.partition(sign)
    return name.strip(), version.strip()


def installed_packages(listed: Mapping[str, Section]) -> dict[str, Section]:
    """Return the packages that an image has (``packages.json``)."""
    return {SYSTEM: listed.get("system", {}), PYTHON_PACKAGES: listed.get("python", {})}


def layers_with_sizes(versions: Section, provenance: Provenance) -> Section:
    """Return the layers of an image with the sizes and keys that its provenance has."""
    layers = {
        each.name: {**versions.get(each.name, {}), "bytes": each.size, "key": each.key[:12]}
        for each in provenance.layers
    }
    return {**versions, **layers}


def rules_of(resolved: Resolved) -> Section:
    """Return the messages of the rules that hold for an image, by id."""
    held = (each.rule for each in resolved.findings if each.state == HOLDS)
    return {each.id: str(each.message) for each in held}


def side_of_lock(title: str, lock: Lock) -> Side:
    """Return the pins of a lock."""
    system, python, sources = dict[str, str](), dict[str, str](), dict[str, str]()
    for entries in lock.layers.values():
        for each in entries:
            if each.kind == APT:
                name, version = _split((each.pin or each.name).partition(" ")[0], "=")
                system[name] = version
            elif each.kind == PYTHON and not each.builds:
                name, version = _split((each.pin or each.name).partition(" ")[0], "==")
                python[name] = version
            elif not each.builds:
                sources[" ".join(filter(None, (each.name, each.where)))] = each.pin
    return Side(title, {SYSTEM: system, PYTHON_PACKAGES: python, SOURCES: sources})


def side_of_profile(profile: Profile) -> Side:
    """Return the values of a profile."""
    uses = (*([profile.base] if profile.base else []), *profile.values)
    values = {
        f"{use.layer}.{name}": str(getattr(value, "text", value))
        for use in uses
        for name, value in use.values.items()
    }
    base = {"base": str(profile.base.layer)} if profile.base else {}
    return Side(profile.name, {PARAMETERS: {**base, **values}})


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
