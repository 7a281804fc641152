"""Dumps of the flight recorder are read as plain values, whoever wrote them."""

import json
import os
import pickle
from typing import Any

import pytest

from lumicontainer.jobs.postmortem.reading.recorder import UnreadableError, read_dump

from ....cpu import within
from ..leftovers import call, dump


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("echo hello",)


NESTED: Any = ("a", "b")
for _ in range(40):
    NESTED = (NESTED, NESTED)


def test_a_dump_has_the_calls_of_a_rank_with_the_lines_of_its_program() -> None:
    read = read_dump(dump([call(1, "broadcast", 9, line=12, state="completed")], [0, 1]), 1)
    (only,) = read.calls
    assert (only.described(), only.place, only.ended) == (
        "broadcast(9)",
        "/users/me/train.py:12",
        True,
    )
    assert list(read.members.values()) == [(0, 1)]


def test_a_dump_in_json_is_read_as_well() -> None:
    data = {"entries": [call(1)], "pg_config": {"0": {"desc": "default_pg", "ranks": "[0]"}}}
    read = read_dump(json.dumps(data).encode(), 0)
    assert (read.calls[0].number, read.members) == (1, {"0": (0,)})


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"entries": [Evil()]}),
        pickle.dumps(len),
        dump([call(1)], [0])[:-9],
        b"",
        b"\x80\x05.",
        b'{"entries": 7}',
        b"[" * 100_000,
        pickle.dumps({"entries": [{"frames": 3}]}),
        dump([call(1, size=10**5000)], [0]),
        dump([call(1, input_dtypes=[NESTED])], [0]),
        dump([call(1, profiling_name=NESTED)], [0]),
        b"\x80\x02}r\xff\xff\xff\x03.",
        b"\x80\x02}p99999999\n.",
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_dump_is_refused_and_runs_nothing(content: bytes) -> None:
    with pytest.raises(UnreadableError):
        read_dump(content, 0)


def test_a_dump_that_repeats_itself_is_read_in_time_and_memory() -> None:
    frames = [{"name": "step", "filename": "<string>" * 1000, "line": 7}] * 100_000
    entry = {**call(1), "frames": frames, "input_sizes": [[4]] * 100_000}
    with within(10):
        read = read_dump(dump([entry] * 100_000, [0]), 0)
    assert len(read.calls[0].sizes) < 100
