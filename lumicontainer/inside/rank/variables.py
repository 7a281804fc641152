"""Select the variables of the platform's table that fit this image, this node and this run.

A row of the table may have conditions in ``when``; all of them must hold. An unknown fact, such as
the version of ROCm in some images, does not hold: a missing setting costs speed, a wrong one hangs
the run.

Another table names variables that do harm here, the harmful values (all by default) and their
conditions. An exported one is kept, and one rank warns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..environment import ANY, DEFAULT, INTERFACES, LOGS, PLUGINS, Setting, kept
from ..launch.launchers import SLURM, nodes
from ..version_range import holds
from . import caches
from .context import Context
from .node_launcher import STARTED

NO_USER_SITE = "PYTHONNOUSERSITE"  # set on every platform; an empty value unsets it for Python
_WHY_NO_USER_SITE = "packages in ~/.local, which the container sees, would hide the image's"

_ROCM = "opt/rocm/.info/version"
_CXI = "sys/class/cxi"
NO_RENDEZVOUS_GET = "disable_rdzv_get"


def settings(context: Context) -> Iterator[Setting]:
    """Decide each variable of the table by its first row that holds; without one it is unset."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in context.platform.get("variables", ()):
        rows.setdefault(row["name"], []).append(row)
    if NO_USER_SITE not in rows:
        yield context.default(NO_USER_SITE, "1", origin=DEFAULT, why=_WHY_NO_USER_SITE)
    origin = f"platform {context.platform.get('name', '')}".strip()
    for name, choices in rows.items():
        others = (each for row in choices for each in row.get("unless_set", ()))
        other = next((each for each in others if each in context.env), None)
        value, why = (None, f"{other} is set instead") if other else _choose(choices, context)
        yield context.default(name, value, origin=origin, why=why)


def evaluated(row: Mapping[str, Any], context: Context) -> dict[str, tuple[bool, str]]:
    """Return whether each condition of a row holds, and the fact in a few words."""
    when = row.get("when", {})
    return {name: CONDITIONS[name](context, condition) for name, condition in when.items()}


def _choose(choices: list[Mapping[str, Any]], context: Context) -> tuple[str | None, str]:
    failed: list[str] = []
    for row in choices:
        results = evaluated(row, context)
        unmet = next((name for name, (met, _) in results.items() if not met), "")
        if unmet:
            failed.append(f"{results[unmet][1]} (for {unmet}: {row['when'][unmet]})")
            continue
        origin = row.get("value_from")
        value, words = _ORIGINS[origin](context) if origin else (row["value"], "")
        if value is None:
            failed.append(words)
            continue
        facts = ", ".join(filter(None, (words, *(words for _, words in results.values()))))
        return value, f"{row['reason']}{f' ({facts})' if facts else ''} [{row['source']}]"
    return None, f"left unset: {'; '.join(dict.fromkeys(failed))}"


def _interfaces(context: Context) -> tuple[str | None, str]:
    prefix = context.platform.get("interface_prefix", "")
    names = ",".join(each.name for each in context.node.interfaces(prefix) if each.up)
    return (names, "") if names else (None, f"no interface {prefix}* is up")


_ORIGINS = {INTERFACES: _interfaces, LOGS: caches.recorder_prefix}


def _nodes(context: Context) -> int | None:
    known = nodes(context.env, context.launch)
    ranks, local = context.number("WORLD_SIZE"), context.number("LOCAL_WORLD_SIZE")
    if known or context.launch.name == SLURM or not (ranks and local):
        return known
    return -(-ranks // local)


def _version_of(layer: str) -> Callable[[Context], str | None]:
    return lambda context: context.platform.get("layers", {}).get(layer) or None


def _within(what: str, find: Callable[[Context], str | int | None]) -> Condition:

    def condition(context: Context, limits: str) -> tuple[bool, str]:
        value = find(context)
        if not value:
            return False, f"{what} unknown"
        try:
            return holds(limits, str(value)), f"{what} {value}"
        except ValueError as error:
            return False, f"{what}: {error}"

    return condition


def _plugin(context: Context, plugin: str) -> tuple[bool, str]:
    """Return whether the image has the plugin: ``any``, or a name, or a name and a range."""
    name, _, limits = plugin.partition(" ")
    layers = context.platform.get("layers", {})
    for each in PLUGINS:
        if each in layers and name in (ANY, each):
            if limits:
                return _within(each, _version_of(each))(context, limits)
            return True, f"{each} {layers[each]}".strip()
    return False, "no network plugin in the image" if name == ANY else f"no {name} in the image"


def _device(context: Context, kind: str) -> tuple[bool, str]:
    devices = context.node.names(f"sys/class/{kind}")
    return (True, "") if devices else (False, f"no {kind} device")


def _network(context: Context, option: str) -> tuple[bool, str]:
    """Return whether srun got an option of --network, which it passes on as SLURM_NETWORK."""
    options = context.env.get("SLURM_NETWORK", "")
    if option not in options.replace(",", " ").split():
        return False, f"srun --network={options}" if options else "srun without --network"
    enabled = [
        device
        for device in context.node.names(_CXI)
        if context.node.text(f"{_CXI}/{device}/device/properties/rdzv_get_en") == "1"
    ]
    if option == NO_RENDEZVOUS_GET and enabled:
        words = f"{enabled[0]} still has rdzv_get_en=1"
        warning = f"srun got --network={option}, but {words}: alt_read is not used"
        if warning not in context.warnings:
            context.warnings.append(warning)
        return False, words
    return True, f"srun --network={option}"


Condition = Callable[[Context, str], tuple[bool, str]]

CONDITIONS: dict[str, Condition] = {
    "rocm": _within("ROCm", lambda each: each.node.text(_ROCM) or _version_of("rocm")(each)),
    "plugin": _plugin,
    "pytorch": _within("PyTorch", _version_of("pytorch")),
    "jax": _within("JAX", _version_of("jax")),
    "libfabric": _within("libfabric", _version_of("libfabric")),
    "slingshot": _within("Slingshot", _version_of("slingshot")),
    "nodes": _within("nodes", _nodes),
    "ranks": _within("ranks", lambda context: context.number("WORLD_SIZE")),
    "device": _device,
    "network": _network,
}


def judge_discouraged(context: Context, settings: list[Setting]) -> None:
    """Add a warning for each discouraged variable, and the reason to its setting.

    Ranks of a launcher that lumi-entry started do not warn: that lumi-entry has.
    """
    for row in context.platform.get("discouraged", ()):
        if not is_meant(row, context.env.get(row["name"], "")):
            continue
        results = evaluated(row, context).values()
        if not all(met for met, _ in results):
            continue
        _explain(row, context.env, settings)
        if STARTED not in context.env:
            context.warnings.append(_warning(row, context.env, [words for _, words in results]))


def advise(context: Context) -> None:
    """Add a warning for each advised variable that the user has not set."""
    for row in context.platform.get("advised", ()):
        results = evaluated(row, context).values()
        if row["name"] in context.env or STARTED in context.env or not all(m for m, _ in results):
            continue
        facts = ", ".join(filter(None, (words for _, words in results)))
        context.warnings.append(
            f"{row['name']}={row['value']} is advised here{f' ({facts})' if facts else ''}\n"
            f"    why: {row['reason']} [{row['source']}]\n"
            f"   hint: export {row['name']}={row['value']}"
        )


def is_meant(row: Mapping[str, Any], value: str) -> bool:
    """Return whether a row of the table is about a value; an empty value never is."""
    if not value:
        return False
    if "allowed_values" in row:
        return not _matches(value, row["allowed_values"])
    return "values" not in row or _matches(value, row["values"])


def _matches(value: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _explain(row: Mapping[str, Any], env: Mapping[str, str], settings: list[Setting]) -> None:
    name = row["name"]
    if all(each.name != name for each in settings):
        settings.append(kept(env, name))
    more = f"; discouraged: {row['reason']} [{row['source']}]"
    settings[:] = [
        each._replace(why=each.why + more) if each.name == name else each for each in settings
    ]


def _warning(row: Mapping[str, Any], env: Mapping[str, str], facts: Iterable[str]) -> str:
    value = env[row["name"]][:80]
    shown = value if value.isprintable() else ascii(value)
    known = ", ".join(filter(None, facts))
    return (
        f"{row['name']}={shown} is kept, but discouraged here{f' ({known})' if known else ''}\n"
        f"    why: {row['reason']} [{row['source']}]\n"
        f"   hint: {row['hint']}"
    )
