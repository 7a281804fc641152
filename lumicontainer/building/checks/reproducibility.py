"""Build the layers of a plan twice and report the files that differ."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from lumicontainer.building.pipeline import assemble
from lumicontainer.cache.objects import INDEX, Entry
from lumicontainer.cache.store import Cache
from lumicontainer.sandbox.builder import Builder
from lumicontainer.sandbox.tree.index import differences, read_index


class ChangedFile(NamedTuple):
    """Hold one file that differs between two builds of a step; ``reason`` may be empty."""

    step: str
    path: str
    what: str
    reason: str


async def check(builder: Builder) -> list[ChangedFile]:
    """Build every step in a separate cache, and return the differences from the usual build."""
    once = await assemble(builder)
    store = Cache(builder.place.root / "second").open()
    # Jobs would compile into the usual cache.
    own = replace(builder, cache=store, proven={}, images={}, shared=(), compile_jobs=None)
    twice = await assemble(own)
    reasons = {layer.name: layer.not_reproducible for layer in builder.plan.resolved.included()}
    changed: list[ChangedFile] = []
    for one, other in zip(once, twice, strict=True):
        if one.digest != other.digest:
            listed = list(_differences(one, other, reasons.get(one.step, {})))
            changed += listed or [ChangedFile(one.step, "/", "packed differently", "")]
    return changed


def _differences(one: Entry, other: Entry, reasons: Mapping[str, str]) -> Iterator[ChangedFile]:
    for path, what in differences(read_index(one.folder / INDEX), read_index(other.folder / INDEX)):
        yield ChangedFile(one.step, f"/{path}", what, reason_of(f"/{path}", reasons))


def reason_of(path: str, reasons: Mapping[str, str]) -> str:
    """Return the reason in ``not_reproducible`` of a layer for ``path``; empty if none."""
    return next((why for form, why in reasons.items() if fnmatchcase(path, form)), "")
