"""A variable as it was decided, and numbers as they stand in the environment."""

from __future__ import annotations

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "user"
DEFAULT = "lumi-entry"
"""The two origins of a value that are no launcher."""


class Setting:
    """Hold one variable: its value (None leaves it unset), who says so, and why."""

    __slots__ = ("name", "origin", "value", "why")

    def __init__(self, name: str, value: str | None, *, origin: str, why: str) -> None:
        self.name = name
        self.value = value
        self.origin = origin
        self.why = why


def is_number(text: str) -> bool:
    """Tell whether ``text`` is a plain decimal number of a size that a launcher could mean."""
    return text.isascii() and text.isdigit() and len(text) < 20


def number(env: Mapping[str, str], name: str) -> int:
    """Return the variable ``name`` as a number; raise LaunchError where it is none."""
    text = env.get(name, "")
    if is_number(text):
        return int(text)
    what = f"{name} is not a number: '{text}'" if text else f"{name} is not set"
    raise LaunchError(
        what,
        where="the environment of this process",
        why="lumi-entry needs it to tell which rank this is, and of how many",
        hint=f"leave {name} as the launcher sets it (no --cleanenv, no export of your own)",
    )
