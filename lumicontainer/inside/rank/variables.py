"""Select the variables of the platform's table that fit this image, this node and this run.

A row of the table may have conditions in ``when``; all of them must hold. An unknown fact, such as
the version of ROCm in some images, does not hold: a missing setting costs speed, a wrong one hangs
the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..environment import DEFAULT, Setting
from ..launch.launchers import SLURM, nodes
from ..version_range import holds
from . import flight_recorder
from .context import Context

PLUGINS = ("aws-ofi-nccl", "aws-ofi-rccl")
"""The layers with RCCL's network plugin over libfabric."""
ANY = "any"
INTERFACES = "interfaces"
"""A row's ``value_from``: the platform's network interfaces that are up."""
LOGS = "logs"
"""A row's ``value_from``: the start of the names of the flight recorder's files."""

NO_USER_SITE = "PYTHONNOUSERSITE"
"""Set on every platform; an empty value unsets it for Python."""
_WHY_NO_USER_SITE = "packages in ~/.local, which the container sees, would hide the image's"

_ROCM = "opt/rocm/.info/version"
_CXI = "sys/class/cxi"
NO_RENDEZVOUS_GET = "disable_rdzv_get"


def settings(context: Context) -> Iterator[Setting]:
    """Decide each variable of the table by its first row that holds; without one it is unset."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    if not any(row["name"] == NO_USER_SITE for row in context.platform.get("variables", ())):
        yield context.default(NO_USER_SITE, "1", origin=DEFAULT, why=_WHY_NO_USER_SITE)
    for row in context.platform.get("variables", ()):
        rows.setdefault(row["name"], []).append(row)
    seen = Seen(context)
    origin = f"platform {context.platform.get('name', '')}".strip()
    for name, choices in rows.items():
        others = (each for row in choices for each in row.get("unless_set", ()))
        other = next((each for each in others if each in context.env), None)
        value, why = (None, f"{other} is set instead") if other else _choose(choices, seen)
        yield context.default(name, value, origin=origin, why=why)


class Seen:
    """Evaluate each condition of the table once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.found: dict[tuple[str, str], tuple[bool, str]] = {}

    def holds(self, name: str, wanted: str) -> tuple[bool, str]:
        """Return whether a condition holds, and the fact in a few words."""
        if (name, wanted) not in self.found:
            self.found[name, wanted] = CONDITIONS[name](self.context, wanted)
        return self.found[name, wanted]


def _choose(choices: list[Mapping[str, Any]], seen: Seen) -> tuple[str | None, str]:
    failed: list[str] = []
    for row in choices:
        results = {name: seen.holds(name, each) for name, each in row.get("when", {}).items()}
        unmet = next((name for name, (met, _) in results.items() if not met), "")
        if unmet:
            failed.append(f"{results[unmet][1]} (for {unmet}: {row['when'][unmet]})")
            continue
        value, words = _value(row, seen.context)
        if value is None:
            failed.append(words)
            continue
        facts = ", ".join(filter(None, (words, *(words for _, words in results.values()))))
        return value, f"{row['reason']}{f' ({facts})' if facts else ''} [{row['source']}]"
    return None, f"left unset: {'; '.join(dict.fromkeys(failed))}"


def _value(row: Mapping[str, Any], context: Context) -> tuple[str | None, str]:
    origin = row.get("value_from")
    return _ORIGINS[origin](context) if origin else (row["value"], "")


def _interfaces(context: Context) -> tuple[str | None, str]:
    prefix = context.platform.get("interface_prefix", "")
    found = ",".join(each.name for each in context.node.interfaces(prefix) if each.up)
    return (found, "") if found else (None, f"no interface {prefix}* is up")


_ORIGINS = {INTERFACES: _interfaces, LOGS: flight_recorder.prefix}


def _rocm(context: Context) -> str | None:
    return context.node.text(_ROCM) or _layer(context, "rocm")


def _nodes(context: Context) -> int | None:
    known = nodes(context.env, context.launch)
    ranks, local = context.number("WORLD_SIZE"), context.number("LOCAL_WORLD_SIZE")
    if known or context.launch.name == SLURM or not (ranks and local):
        return known
    return -(-ranks // local)


def _version_of(layer: str) -> Callable[[Context], str | None]:
    return lambda context: _layer(context, layer)


def _within(what: str, find: Callable[[Context], str | int | None]) -> Condition:

    def condition(context: Context, wanted: str) -> tuple[bool, str]:
        found = find(context)
        if not found:
            return False, f"{what} unknown"
        try:
            return holds(wanted, str(found)), f"{what} {found}"
        except ValueError as error:
            return False, f"{what}: {error}"

    return condition


def _plugin(context: Context, wanted: str) -> tuple[bool, str]:
    """Return whether the image has the plugin: ``any``, or a name, or a name and a range."""
    name, _, limits = wanted.partition(" ")
    layers = context.platform.get("layers", {})
    for each in PLUGINS:
        if each in layers and name in (ANY, each):
            if limits:
                return _within(each, _version_of(each))(context, limits)
            return True, f"{each} {layers[each]}".strip()
    return False, "no network plugin in the image" if name == ANY else f"no {name} in the image"


def _device(context: Context, wanted: str) -> tuple[bool, str]:
    """Return whether there is a device of a class of the kernel; ``cxi`` is Slingshot's."""
    found = context.node.names(f"sys/class/{wanted}")
    return (True, "") if found else (False, f"no {wanted} device")


def _network(context: Context, wanted: str) -> tuple[bool, str]:
    """Return whether srun got an option of --network, which it passes on as SLURM_NETWORK."""
    given = context.env.get("SLURM_NETWORK", "")
    if wanted not in given.replace(",", " ").split():
        return False, f"srun --network={given}" if given else "srun without --network"
    enabled = [
        device
        for device in context.node.names(_CXI)
        if context.node.text(f"{_CXI}/{device}/device/properties/rdzv_get_en") == "1"
    ]
    if wanted == NO_RENDEZVOUS_GET and enabled:
        words = f"{enabled[0]} still has rdzv_get_en=1"
        context.warnings.append(f"srun got --network={wanted}, but {words}: alt_read is not used")
        return False, words
    return True, f"srun --network={wanted}"


Condition = Callable[[Context, str], tuple[bool, str]]

CONDITIONS: dict[str, Condition] = {
    "rocm": _within("ROCm", _rocm),
    "plugin": _plugin,
    "pytorch": _within("PyTorch", _version_of("pytorch")),
    "libfabric": _within("libfabric", _version_of("libfabric")),
    "slingshot": _within("Slingshot", _version_of("slingshot")),
    "nodes": _within("nodes", _nodes),
    "ranks": _within("ranks", lambda context: context.number("WORLD_SIZE")),
    "device": _device,
    "network": _network,
}
"""The conditions of rows."""


def _layer(context: Context, name: str) -> str | None:
    return context.platform.get("layers", {}).get(name) or None
