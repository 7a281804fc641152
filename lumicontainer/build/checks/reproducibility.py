"""Build the layers of a plan a second time and say in which files they differ from the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase

from lumicontainer.build.builder import Builder
from lumicontainer.build.cache.store import INDEX, Cache, Entry
from lumicontainer.build.pipeline import assemble
from lumicontainer.build.tree.index import differences, read_index


@dataclass(frozen=True)
class Difference:
    """Hold one file that two builds of a step made differently; ``reason`` may be empty."""

    step: str
    path: str
    what: str
    reason: str

    def record(self) -> dict[str, str]:
        """Return it as plain data."""
        return asdict(self)


async def check(builder: Builder) -> list[Difference]:
    """Build every step anew in a cache of its own, and return what differs.

    The first build comes from the cache where it has it.
    """
    once = await assemble(builder)
    store = Cache(builder.place.root / "again").open()
    twice = await assemble(replace(builder, cache=store, proven={}))
    reasons = {layer.name: layer.not_reproducible for layer in builder.plan.resolved.included()}
    found: list[Difference] = []
    for one, other in zip(once, twice, strict=True):
        if one.digest != other.digest:
            listed = list(_differences(one, other, reasons.get(one.step, {})))
            found += listed or [Difference(one.step, "/", "packed otherwise", "")]
    return found


def _differences(one: Entry, other: Entry, reasons: Mapping[str, str]) -> Iterator[Difference]:
    for path, what in differences(read_index(one.folder / INDEX), read_index(other.folder / INDEX)):
        yield Difference(one.step, f"/{path}", what, reason_of(f"/{path}", reasons))


def reason_of(path: str, reasons: Mapping[str, str]) -> str:
    """Return why a layer says that ``path`` is not the same twice, or nothing."""
    return next((why for form, why in reasons.items() if fnmatchcase(path, form)), "")
