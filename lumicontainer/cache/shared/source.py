"""The sources of other users' layers and wheels: a team's folder, or a registry."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from lumicontainer.cache import integrity, objects
from lumicontainer.cache.integrity import Damaged
from lumicontainer.cache.objects import Entry
from lumicontainer.cache.store import Cache
from lumicontainer.errors import Problem


class Untrusted(Exception):  # noqa: N818 - callers catch it
    """An object is there, but its publisher is not trusted."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


class LayerSource(Protocol):
    """A cache of other users, from which a build takes objects that trusted users published."""

    def require(self) -> None:
        """Raise ``HostError`` if it cannot be read at all."""

    def entry(self, name: str) -> Entry | None:
        """Return an object, whose bytes are not verified; None if it cannot be taken."""

    def take(self, name: str, store: Cache, count: Callable[[int], None]) -> Entry:
        """Copy an object into a user's own cache; the caller holds its ``make_lock``.

        ``count`` gets the number of bytes that came, and may raise an error that ends this. Raises
        ``FileNotFoundError``, ``Untrusted``, ``Damaged`` if a byte of the copy differs, or
        ``DownloadError`` or ``HostError`` if the source does not answer.
        """

    def doubt(self, name: str, step: str) -> Problem | None:
        """Return the warning about an object that a build would not take; None if it is missing."""

    def refusal(self, name: str, step: str, error: Exception) -> Problem:
        """Return the warning that an object is not taken because of an error of ``take``."""


def find_offered(name: str, sources: Sequence[LayerSource]) -> Entry | None:
    """Return an object of the first cache of others that has it; None if none has."""
    return next(filter(None, (source.entry(name) for source in sources)), None)


def keep_copy(
    store: Cache, name: str, sums: bytes, publisher: str, copy: Callable[[Path], None]
) -> Entry:
    """Keep an object of a publisher, whose files ``copy`` writes into a folder, under its name.

    Raises ``Damaged``, which names the publisher, if a byte differs from what the ``sums`` say.
    """
    draft = store.draft(name)
    try:
        copy(draft)
        (draft / objects.SUMS).write_bytes(sums)
        integrity.prove(draft, name)
        # A build with --rebuild did not make it.
        os.utime(draft / objects.ENTRY, (0, 0))
        return replace(store.keep(draft), publisher=publisher)
    except Damaged as error:
        raise Damaged(f"{error}; its publisher is {publisher}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
