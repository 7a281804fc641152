"""A pure test that starts a program is seen, and what others left in threads is not its fault."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from ..conftest import Watch

pytestmark = pytest.mark.slow

TRUE = (sys.executable, "-S", "-c", "")


def seen_while(start: Callable[[], object]) -> list[str]:
    """Return what a watch sees while a function runs."""
    own = Watch()
    own.thread, own.seen = threading.get_ident(), []
    sys.addaudithook(own.note)
    start()
    seen, own.seen = own.seen, None
    return seen


def test_a_program_that_a_test_starts_is_seen() -> None:
    assert "subprocess.Popen" in seen_while(lambda: subprocess.run(TRUE, check=True))


def test_a_program_that_another_thread_starts_is_not() -> None:
    other = threading.Thread(target=subprocess.run, args=(TRUE,))
    assert seen_while(lambda: (other.start(), other.join())) == []
