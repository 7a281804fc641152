"""Variables of the environment: decided values, and numbers that launchers set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .errors import ENVIRONMENT, LaunchError

# The two origins of a value that are not launchers.
USER, DEFAULT = "user", "lumi-entry"
PLUGINS = ("aws-ofi-nccl", "aws-ofi-rccl")  # the layers with RCCL's network plugin over libfabric
ANY = "any"
# The values of ``value_from``: the platform's network interfaces that are up, and the start of the
# names of the flight recorder's files.
INTERFACES, LOGS = "interfaces", "logs"


class Setting(NamedTuple):
    """A decided variable: its value (None leaves it unset), the origin of the value, the reason."""

    name: str
    value: str | None
    origin: str
    why: str


def kept(env: Mapping[str, str], name: str, why: str = "set already") -> Setting:
    """Return the setting that keeps the user's variable."""
    return Setting(name, env[name], USER, why)


def is_number(text: str) -> bool:
    """Return whether ``text`` is a decimal number of at most 19 digits."""
    return text.isascii() and text.isdigit() and len(text) < 20


def optional_number(env: Mapping[str, str], name: str) -> int | None:
    """Return the variable ``name`` as a number; None if it is not one."""
    text = env.get(name, "")
    return int(text) if is_number(text) else None


def number(env: Mapping[str, str], name: str) -> int:
    """Return the variable ``name`` as a number; raise LaunchError if it is not one."""
    value = optional_number(env, name)
    if value is not None:
        return value
    text = env.get(name)
    what = f"{name} is not a number: '{text}'" if text else f"{name} is not set"
    why = "lumi-entry needs it to compute the rank and the number of ranks"
    hint = f"leave {name} as the launcher sets it (no --cleanenv, no export of your own)"
    raise LaunchError(what, ENVIRONMENT, why, hint)
