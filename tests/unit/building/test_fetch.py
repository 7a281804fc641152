"""A build takes of others what it lacks, and stops at once when it is interrupted."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from lumicontainer.building.layers.fetch import AT_ONCE, Arrival, take, take_all
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.store import Cache
from lumicontainer.errors import DownloadError, Problem


class Source:
    """Give an object, or fail."""

    def __init__(self, give: Callable[[Callable[[int], None]], Entry]) -> None:
        self._give = give
        self.requests = 0

    def take(self, name: str, store: Cache, count: Callable[[int], None]) -> Entry:
        del name, store
        self.requests += 1
        return self._give(count)

    def refusal(self, name: str, step: str, error: Exception) -> Problem:
        del name
        return Problem(f"no {step}", why=str(error), level="warning")


def builder(*sources: object) -> Mock:
    """Return what a build works with, whose own cache is empty."""
    values = {"fresh": False, "shared": sources, "refused": set(), "proven": {}}
    return Mock(**values, use=AsyncMock(return_value=1), **{"cache.entry.return_value": None})


def fail(error: Exception) -> Callable[[Callable[[int], None]], Entry]:
    def give(count: Callable[[int], None]) -> Entry:
        del count
        raise error

    return give


def entry(publisher: str) -> Mock:
    return Mock(spec=Entry, publisher=publisher)


def take_layers(source: Source, number: int, locks: Path) -> list[str]:
    """Take layers of a source; return their publishers."""
    build = builder(source)
    build.cache.make_lock = lambda name: locks / name
    layers: list[Any] = [SimpleNamespace(name=f"{each}", step="layer") for each in range(number)]
    return asyncio.run(take_all(build, layers, Mock(), Arrival()))


def test_layers_are_taken_side_by_side(tmp_path: Path) -> None:
    meeting = threading.Barrier(AT_ONCE, timeout=60)

    def give(count: Callable[[int], None]) -> Entry:
        del count
        meeting.wait()
        return entry("bob")

    assert take_layers(Source(give), 2 * AT_ONCE, tmp_path) == ["bob"] * 2 * AT_ONCE


def test_nothing_is_taken_above_a_layer_that_cannot_be_taken(tmp_path: Path) -> None:
    source = Source(fail(Damaged("bad")))
    assert take_layers(source, 3 * AT_ONCE, tmp_path) == []
    assert source.requests == AT_ONCE


@pytest.mark.parametrize(
    "error", [FileNotFoundError("x"), Damaged("bad"), DownloadError(Problem("no answer"))]
)
def test_the_next_source_is_asked_if_the_first_one_fails(error: Exception) -> None:
    first, second = Source(fail(error)), Source(lambda _: entry("bob"))
    assert asyncio.run(take(builder(first, second), "name", "base")) == "bob"


def test_the_same_reason_is_said_once_for_each_source() -> None:
    sources = [Source(fail(DownloadError(Problem("no answer")))) for _ in range(2)]
    build = builder(*sources)
    for name in ("one", "two", "one"):
        assert asyncio.run(take(build, name, name)) == ""
    assert build.progress.say.call_count == len(sources)
    assert [source.requests for source in sources] == [2, 2]


def test_an_interrupted_build_waits_for_no_more_bytes() -> None:
    begun, wrong = threading.Event(), list[str]()

    def endless(count: Callable[[int], None]) -> Entry:
        try:
            while True:
                count(1)
                begun.set()
        except ValueError as error:
            wrong.append(str(error))
            raise

    async def interrupt() -> None:
        taking = asyncio.create_task(take(builder(Source(endless)), "name", "base"))
        await asyncio.to_thread(begun.wait)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        assert wrong == ["the build ends"]

    asyncio.run(interrupt())
