"""The limits of every transfer and of every helper program, in bytes and in seconds.

They are far above what real images need: a slow line passes, and an answer without end does not.
``step/download.sh`` and ``step/fetch.sh`` have the limits of ``SOURCE`` too, because steps run
them.
"""

import math
import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import NamedTuple

from lumicontainer.errors import DownloadError, HostError, LumicontainerError, StepError

_MINUTE, _HOUR = 60, 3600
_MIB, _GIB = 1 << 20, 1 << 30


class Transfer(NamedTuple):
    """Limit a transfer."""

    most: int
    """Bytes of the answer."""
    seconds: float = 24 * _HOUR
    """Time of all attempts together: a layer of 10 GB by 1 Mbit/s."""
    slowest: int = 1 << 10
    """Bytes a second, on average over each window."""
    window: float = 2 * _MINUTE
    silence: float = 30
    """Seconds for which a server may send nothing."""
    pauses: tuple[float, ...] = (1, 2, 4, 8)
    """Seconds before each attempt but the first."""
    longest_pause: int = _MINUTE
    """A server that asks for a longer pause is not waited for."""


MANIFEST = Transfer(4 * _MIB, _HOUR)
"""The largest manifest that registries accept."""
TOKEN = Transfer(_MIB, _HOUR)
LAYER = Transfer(64 * _GIB)
"""A layer, or another blob, whose manifest does not state its size."""
IMAGE = Transfer(256 * _GIB)
"""All layers of an image together."""
BLOB_STATE = Transfer(_MIB, _HOUR)
"""Whether a registry has a blob."""
UPLOAD = Transfer(_MIB, window=10 * _MINUTE, silence=2 * _MINUTE)
"""The answer to bytes that were sent, which a registry checks and stores before it answers."""
SOURCE = Transfer(32 * _GIB, silence=2 * _MINUTE)
"""A file or a repository; packages of ROCm have several GB."""

PACKAGES = Transfer(256 * _GIB)
"""All files of packages of an extension."""
UNPACKED = 256 * _GIB
"""The files of all wheels of an extension, or of one that a layer compiles.

Those of PyTorch for ROCm have 20 GB.
"""

GIT_MEMORY = 16 * _GIB
"""Address space of git, which keeps the list of all branches and tags in memory."""


def shorten_patience(limits: Transfer) -> Transfer:
    """Return the limits of a transfer without which a build goes on, by making what it lacks."""
    silence, pauses = min(limits.silence, 10), limits.pauses[:1]
    return limits._replace(
        slowest=64 << 10, window=30, silence=silence, pauses=pauses, longest_pause=10
    )


class Helper(NamedTuple):
    """Limit a program that runs until its output is complete."""

    seconds: float
    most: int
    """Bytes of its stdout and stderr together."""
    hint: str
    error: type[LumicontainerError] = HostError
    """It ends with the exit code of a program that exceeds a limit."""
    memory: int = 0
    """Bytes of data of one process; 0 for no limit."""
    written: int = 256 * _GIB
    """Bytes that its processes may write to files, or that a container may have in the one folder
    which it may write; 0 for no limit."""
    idle: float = 0
    """Seconds for which its processes may do nothing; 0 for no limit."""


_SLOW = "see why this host is so slow: its load, or a file system that does not answer"
_INDEXES = "check the indexes: pip config list; uv cache prune removes what uv left"
_NETWORK = "check the network, or name a mirror: --mirror FROM=TO"

QUESTION = Helper(10 * _MINUTE, 64 * _MIB, _SLOW, written=_GIB)
"""A program of this host that answers a question."""
SLURM = QUESTION._replace(
    seconds=1 * _MINUTE, hint="scontrol ping shows if this host reaches Slurm"
)
"""A program of Slurm that answers a question, which is asked again."""
ENGINE = Helper(30 * _MINUTE, 256 * _MIB, _SLOW, written=0)
"""An engine that starts a container for a question; a shared file system may be slow.

A server of FUSE writes all that the container reads.
"""
REPORT = Helper(math.inf, 64 * _MIB, "run its checks one by one: verify -k NAME", written=0)
"""The report of the checks of an image."""
FILES = Helper(24 * _HOUR, 1 * _GIB, _SLOW)
"""A program that lists, copies, packs or removes files."""
DOWNLOAD = Helper(SOURCE.seconds + _HOUR, 64 * _MIB, _NETWORK, DownloadError)
"""curl or git, which have the limits of ``SOURCE`` too."""
RESOLVE = Helper(6 * _HOUR, 64 * _MIB, _INDEXES, DownloadError, 4 * _GIB, 64 * _GIB)
"""A resolver of Python packages: it reads what servers answer, and metadata of sources.

Pip writes each wheel three times, and PyTorch's wheels for ROCm have 5 GB.
"""
BUILD = Helper(72 * _HOUR, 64 * _MIB, "build it in a layer, whose steps show their log", StepError)
"""A resolver or installer in a container, which may compile sources."""

USER = Helper(math.inf, 1 << 62, "", written=0)
"""A program that the user chose, in the user's time."""


def report_of(seconds: Iterable[int]) -> Helper:
    """Return the limits of a report of checks, each of which may take some ``seconds``.

    Lumi-verify ends each in time; the Python of an image may run something else.
    """
    return REPORT._replace(seconds=ENGINE.seconds + sum(each + _MINUTE for each in seconds))


class LimitError(ValueError):
    """A transfer or a program exceeded a limit; another attempt would exceed it too."""

    folder = ""
    """The folder in which the last program that started does nothing."""


class Total:
    """Limit several transfers together; threads may share it."""

    def __init__(self, limits: Transfer, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._clock = limits, clock
        self._left, self._end = limits.most, clock() + limits.seconds
        self._lock = Lock()

    def shorten(self, part: Transfer) -> Transfer:
        """Return the limits of the next part, which ends in time; raise ``LimitError`` too late."""
        self.count(0)
        return part._replace(seconds=min(part.seconds, self._end - self._clock()))

    def count(self, size: int) -> None:
        """Note the bytes of a part; raise ``LimitError`` for too many bytes, or at the end."""
        with self._lock:
            self._left -= size
        if self._left < 0:
            raise LimitError(f"all files together have more than {self._limits.most} bytes")
        if self._clock() >= self._end:
            raise LimitError(f"all files together did not end within {self._limits.seconds:g} s")


class Pace:
    """Measure one attempt of a transfer until ``end``, a time of the clock."""

    def __init__(
        self, limits: Transfer, end: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits, self._end, self._clock = limits, end, clock
        # The frame of an answer is smaller than its content, unless it is an attack.
        self._left = 2 * limits.most + _MIB
        self._waited, self._got, self._began = 0.0, 0, 0.0

    def patience(self) -> float:
        """Return for how many seconds the next bytes may be waited for; begin to wait."""
        self._began = self._clock()
        if self._began >= self._end:
            raise LimitError(f"it did not end within {self._limits.seconds:g} s")
        return min(self._limits.silence, self._end - self._began)

    def count(self, size: int) -> None:
        """Note the bytes that have arrived; raise ``LimitError`` or ``TimeoutError``."""
        limits = self._limits
        self._left -= size
        if self._left < 0:
            raise LimitError(f"it has more than {limits.most} bytes")
        self._got += size
        # Time that this host needs for its own files does not count.
        self._waited += self._clock() - self._began
        if self._waited < limits.window:
            return
        if self._got < limits.slowest * self._waited:
            what = f"fewer than {limits.slowest} bytes a second came for {self._waited:.0f} s"
            raise TimeoutError(what)
        self._waited, self._got = 0.0, 0
