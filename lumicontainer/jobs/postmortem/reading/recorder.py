"""Read the dumps of PyTorch's flight recorder: pickles of plain values, or JSON.

PyTorch, torch/csrc/distributed/c10d/FlightRecorder.hpp, has the names of their fields.
"""

import io
import json
import pickle
import pickletools
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

_MOST_ENTRIES, _MOST_TENSORS, _MOST_FRAMES, _LONGEST_PATH = 20_000, 64, 100, 1000


class Collective(NamedTuple):
    """Hold one collective of a rank."""

    group: str
    """The name of its process group."""
    title: str
    """Its name in the program."""
    number: int
    """Its number in the process group."""
    operation: str
    sizes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    place: str
    """The file and the line in the user's program."""
    function: str
    ended: bool
    """Whether it is known to have ended; Gloo does not say it."""
    peer_to_peer: bool
    begun: float
    """Seconds of the clock when the rank called it."""
    patience: float
    """Seconds that it waits."""

    def described(self) -> str:
        """Return the operation with the sizes of its tensors."""
        sizes = ", ".join("x".join(map(str, each)) or "scalar" for each in self.sizes[:3])
        return f"{self.operation}({sizes})"

    @property
    def alike(self) -> tuple[object, ...]:
        """Return what is equal in all ranks."""
        return (self.operation, self.sizes, self.types) if self.is_regular else (self.operation,)

    @property
    def is_regular(self) -> bool:
        """Return whether all ranks give tensors of the same sizes."""
        name = self.operation
        return name.startswith(("all_reduce", "broadcast", "_all_gather_base", "all_gather_into"))


class Dump(NamedTuple):
    """Hold what one rank has recorded."""

    rank: int
    calls: tuple[Collective, ...]
    members: Mapping[str, tuple[int, ...]]
    """The ranks of each process group by its name, which is empty for the only one of Gloo."""


class UnreadableError(Exception):
    """Report why a dump cannot be read."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class and function: a dump has numbers, texts, lists and dictionaries."""
        raise UnreadableError(f"it holds {module}.{name}, and no plain values")

    def persistent_load(self, _: Any) -> Any:
        """Refuse references to other objects."""
        raise UnreadableError("it refers to other objects")


_ARGUMENTS = {ord(each.code): each.arg.n if each.arg else 0 for each in pickletools.opcodes}
_PUTS = b"qr"
"""BINPUT and LONG_BINPUT, for whose number the unpickler allocates memory."""
_COUNTS = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
"""The bytes of an argument's length, which is before it."""


def _unpickle(content: bytes) -> Any:
    """Return the value of a pickle that needs no more memory than such a file may."""
    position = 0
    while position < len(content):
        code = content[position]
        size, position = _ARGUMENTS.get(code, pickletools.UP_TO_NEWLINE), position + 1
        if size == pickletools.UP_TO_NEWLINE:
            raise UnreadableError("it is not a pickle of PyTorch")
        count = _COUNTS.get(size, size)
        number = int.from_bytes(content[position : position + count], "little")
        if code in _PUTS and number > len(content):
            raise UnreadableError("it needs too much memory")
        position += count + (number if size in _COUNTS else 0)
    return _Plain(io.BytesIO(content)).load()


def read_dump(content: bytes, rank: int) -> Dump:
    """Return the dump of a rank; raise ``UnreadableError`` if it is not one, or is not complete."""
    try:
        data = json.loads(content) if content[:1] in b"{[" else _unpickle(content)
        entries = data["entries"][-_MOST_ENTRIES:]
        calls = tuple(_call(entry) for entry in entries)
        groups: Mapping[str, Any] = data.get("pg_config", {})
        members = {_text(name): _ranks(row) for name, row in groups.items()}
    except UnreadableError:
        raise
    except Exception as error:  # a damaged pickle raises whatever its bytes lead to
        raise UnreadableError(f"it is not a whole dump ({type(error).__name__})") from error
    return Dump(rank, calls, members)


def _ranks(row: Mapping[str, Any]) -> tuple[int, ...]:
    ranks = row["ranks"]
    listed = json.loads(ranks) if isinstance(ranks, str) and ranks else ranks
    return tuple(_number(each) for each in listed or ())


def _call(entry: Mapping[str, Any]) -> Collective:
    place, function = _user_frame(entry.get("frames", ()))
    group = entry["process_group"]
    return Collective(
        _text(group[0]),
        _text(group[1] if group[1] not in ("", "undefined") else group[0]),
        _number(entry["p2p_seq_id"] if entry.get("is_p2p") else entry["collective_seq_id"]),
        _text(entry["profiling_name"]).partition(":")[2],
        tuple(_sizes(each) for each in entry.get("input_sizes", ())[:_MOST_TENSORS]),
        tuple(_text(each) for each in entry.get("input_dtypes", ())[:_MOST_TENSORS]),
        place,
        function,
        entry.get("state") == "completed",
        bool(entry.get("is_p2p")),
        _number(entry.get("time_created_ns") or 0) / 1e9,
        _number(entry.get("timeout_ms") or 0) / 1e3,
    )


def _text(value: Any) -> str:
    """Return a text; others may name each other without end."""
    if not isinstance(value, str):
        raise UnreadableError("it has something else than a text")
    return value[:_LONGEST_PATH]


def _number(value: Any) -> int:
    if not isinstance(value, int) or abs(value) >= 1 << 63:
        raise UnreadableError("it has something else than a number")
    return value


def _sizes(values: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a tensor, which are 64-bit numbers."""
    struct.pack(f"{len(values)}q", *values)
    return tuple(values)


def _user_frame(frames: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    for frame in islice(frames, _MOST_FRAMES):
        path = _text(frame["filename"])
        if "-packages/" not in path and "/lib/python3" not in path and not path.startswith("<"):
            return f"{path}:{_number(frame['line'])}", _text(frame["name"])
    return "", ""
