"""Move the blobs of an image, several side by side; the first failure ends all."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

THREADS = 8
P = ParamSpec("P")
T = TypeVar("T")


class Transfers:
    """Run transfers in threads, and count their bytes; use it in a ``with`` block.

    The block raises the first failure of all, whichever it waits for.
    """

    def __init__(self, total: int, reached: Callable[[int, int], None]) -> None:
        self._failure: BaseException | None = None
        self._done, self._total, self._reached, self._lock = 0, total, reached, Lock()
        self._pool = ThreadPoolExecutor(THREADS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error:  # Ctrl-C, or a failure.
            self._fail(error)
        self._pool.shutdown(cancel_futures=error is not None)
        if self._failure and self._failure is not error:
            raise self._failure

    def start(self, work: Callable[P, T], *words: P.args, **named: P.kwargs) -> "Future[T]":
        """Start a work in a thread."""

        def run() -> T:
            try:
                self.add(0)
                return work(*words, **named)
            except BaseException as error:
                self._fail(error)
                raise

        return self._pool.submit(run)

    def add(self, size: int) -> None:
        """Count bytes; those of a second attempt count once more, up to the total.

        Raises ``ValueError`` if another transfer has failed.
        """
        if self._failure:
            raise ValueError("another transfer has failed")
        with self._lock:
            self._done = min(self._total, self._done + size)
            self._reached(self._done, self._total)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
