"""Find packages of the image that packages on PYTHONPATH or in extensions hide."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..checking import record
from . import user_software
from .names import plain_name

_MOST = 4
_SUFFIXES = (".dist-info", ".egg-info")


class Hidden(NamedTuple):
    """One package of the image, its version there, and the version that programs import."""

    name: str
    own: str
    other: str
    place: str


def described(env: Mapping[str, str]) -> str:
    """Return a line about packages of the image that others hide, or ""."""
    rows = list(hidden(env))
    if not rows:
        return ""
    shown = [f"{each.name} {each.other} hides {each.own}" for each in rows[:_MOST]]
    more = [f"and {len(rows) - _MOST} more"] if len(rows) > _MOST else []
    return f"packages of the image are hidden by {_places(rows)}: {', '.join([*shown, *more])}"


def first_hint(env: Mapping[str, str]) -> str:
    """Return what to do before anything else if packages of the image are hidden, or ""."""
    rows = list(hidden(env))
    return f"first start without {_places(rows)}, which hides packages" if rows else ""


def _places(rows: Iterable[Hidden]) -> str:
    return " and ".join(dict.fromkeys(each.place for each in rows))


def hidden(env: Mapping[str, str]) -> Iterator[Hidden]:
    """Yield each package of the image that programs import in another version."""
    folders = dict(_folders(env))
    if not folders:
        return
    built = record("packages.json").get("python", {})
    own = {plain_name(name): (name, version) for name, version in built.items()}
    for folder, place in folders.items():
        for other, version in _installed(folder):
            name, of_image = own.pop(other, ("", ""))
            if name and of_image != version:
                yield Hidden(name, of_image, version, place)


def _folders(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each folder that Python searches before the image's packages, and what names it."""
    for folder in filter(None, env.get("PYTHONPATH", "").split(os.pathsep)):
        yield folder, f"PYTHONPATH={folder}"
    part = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])
    for folder in reversed(user_software.folders()):
        yield os.path.join(folder, part), f"the extension in {folder}"


def _installed(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the plain name and the version of each package in a folder."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for each in names:
        stem, suffix = os.path.splitext(each)
        name, _, rest = stem.partition("-")
        if suffix in _SUFFIXES and rest:
            yield plain_name(name), rest.partition("-py")[0]
