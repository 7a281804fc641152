"""Read the dumps of PyTorch's flight recorder: pickles of plain values, or JSON.

PyTorch, torch/csrc/distributed/c10d/FlightRecorder.hpp, has the names of their fields.
"""

import io
import json
import pickle
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

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to other objects."""
        raise UnreadableError(f"it refers to {str(pid)[:40]}")


def read_dump(content: bytes, rank: int) -> Dump:
    """Return the dump of a rank; raise ``UnreadableError`` if it is none, or not complete."""
    try:
        data = json.loads(content) if content[:1] in b"{[" else _Plain(io.BytesIO(content)).load()
        entries = data["entries"][-_MOST_ENTRIES:]
        calls = tuple(_call(entry) for entry in entries)
        groups: Mapping[str, Any] = data.get("pg_config", {})
        members = {str(name): _ranks(row) for name, row in groups.items()}
    except UnreadableError:
        raise
    except Exception as error:  # a damaged pickle raises whatever its bytes lead to
        raise UnreadableError(f"{type(error).__name__}: {str(error)[:200]}") from error
    return Dump(rank, calls, members)


def _ranks(row: Mapping[str, Any]) -> tuple[int, ...]:
    ranks = row["ranks"]
    listed = json.loads(ranks) if isinstance(ranks, str) and ranks else ranks
    return tuple(int(each) for each in listed or ())


def _call(entry: Mapping[str, Any]) -> Collective:
    place, function = _user_frame(entry.get("frames", ()))
    group = entry["process_group"]
    return Collective(
        str(group[0]),
        str(group[1] if group[1] not in ("", "undefined") else group[0])[:100],
        int(entry["p2p_seq_id"] if entry.get("is_p2p") else entry["collective_seq_id"]),
        str(entry["profiling_name"]).partition(":")[2][:100],
        tuple(_sizes(each) for each in entry.get("input_sizes", ())[:_MOST_TENSORS]),
        tuple(str(each)[:40] for each in entry.get("input_dtypes", ())[:_MOST_TENSORS]),
        place,
        function,
        entry.get("state") == "completed",
        bool(entry.get("is_p2p")),
        int(entry.get("time_created_ns") or 0) / 1e9,
        int(entry.get("timeout_ms") or 0) / 1e3,
    )


def _sizes(values: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a tensor, which are 64-bit numbers."""
    struct.pack(f"{len(values)}q", *values)
    return tuple(values)


def _user_frame(frames: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    for frame in islice(frames, _MOST_FRAMES):
        path = str(frame["filename"])[:_LONGEST_PATH]
        if "-packages/" not in path and "/lib/python3" not in path and not path.startswith("<"):
            return f"{path}:{int(frame['line'])}", str(frame["name"])[:200]
    return "", ""
