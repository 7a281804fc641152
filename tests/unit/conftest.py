"""Keep unit tests pure: one that starts a program or opens a socket is marked ``slow``.

``make unit`` runs the pure ones in seconds; ``make unit-slow`` runs the others.
"""

import sys
import threading
from collections.abc import Iterator

import pytest

PROGRAMS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")
SOCKETS = ("socket.bind", "socket.connect")
EVENTS = frozenset((*PROGRAMS, *SOCKETS))
"""Audit events of the interpreter, which also come from libraries that a test calls."""


class Watch:
    """Hold what the test of one thread does outside its process; None if nobody asks."""

    def __init__(self) -> None:
        self.thread = 0
        self.seen: list[str] | None = None

    def note(self, event: str, _: object) -> None:
        """Note an event; what earlier tests left in threads is not of this test."""
        if event in EVENTS and self.seen is not None and threading.get_ident() == self.thread:
            self.seen.append(event)


watch = Watch()
sys.addaudithook(watch.note)


def keep_pure(item: pytest.Item) -> Iterator[None]:
    """Fail a test that is not marked, if it does one of the events."""
    if item.get_closest_marker("slow"):
        return (yield)
    watch.thread, watch.seen = threading.get_ident(), []
    try:
        result = yield
        seen = sorted(set(watch.seen))
    finally:
        watch.seen = None
    if seen:
        pytest.fail(f"not pure ({', '.join(seen)}): mark it @pytest.mark.slow", pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    return (yield from keep_pure(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from keep_pure(item))
