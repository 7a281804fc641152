"""Control how this program manages its memory."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collector_off() -> Iterator[None]:
    """Keep the garbage collector off: it looks at millions of new objects that all stay in use."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
