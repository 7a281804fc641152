"""Write the smallest files that jobs leave."""

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lumicontainer.jobs.postmortem.evidence import Evidence
from lumicontainer.jobs.postmortem.judge import find_cause
from lumicontainer.jobs.postmortem.reading.gather import gather
from lumicontainer.jobs.postmortem.verdict import Verdict

CLOSED = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.2]:1942."
TIMED_OUT = (
    "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 9ms for recv operation to complete"
)
LIBRARY = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
START = 1_800_000_000.0


def traceback(error: str, line: int = 7, label: str = "") -> str:
    rows = [
        "Traceback (most recent call last):",
        f'  File "/users/me/train.py", line {line}, in main',
        "    step()",
        f'  File "{LIBRARY}", line 3252, in all_reduce',
        "    work.wait()",
        error,
    ]
    return "".join(f"{label}{row}\n" for row in rows)


def write(folder: Path, texts: dict[str, str], seconds: dict[str, float] | None = None) -> Path:
    """Write logs; ``seconds`` says when each was last written."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        at = START + (seconds or {}).get(name, 0)
        os.utime(path, (at, at))
    return folder


def ranks(*errors: str) -> dict[str, str]:
    """Return the stderr of each rank: a traceback, or nothing."""
    return {
        f"7.0-rank{number}.err": traceback(error) if error else ""
        for number, error in enumerate(errors)
    }


def call(number: int, operation: str = "all_reduce", size: int = 4, **more: Any) -> dict[str, Any]:
    """Return a collective as the flight recorder writes it."""
    line = more.pop("line", 7)
    frames = [
        {"name": operation, "filename": LIBRARY, "line": 3245},
        {"name": "step", "filename": "/users/me/train.py", "line": line},
    ]
    row = {
        "frames": frames,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": f"gloo:{operation}",
        "time_created_ns": int((START + number) * 1e9),
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": "scheduled",
        "retired": False,
        "timeout_ms": 6000,
        "is_p2p": False,
    }
    return {**row, **more}


def dump(entries: Iterable[dict[str, Any]], members: Iterable[int]) -> bytes:
    groups = {"": {"name": "", "desc": "", "ranks": str(list(members))}}
    return pickle.dumps({"version": "2.10", "pg_config": groups, "entries": list(entries)})


def record(folder: Path, *by_rank: list[dict[str, Any]] | None) -> Path:
    """Write the dump of each rank; None for one that left none."""
    for number, entries in enumerate(by_rank):
        if entries is not None:
            path = folder / f"7.0-flight-recorder-rank{number}"
            path.write_bytes(dump(entries, range(len(by_rank))))
    return folder


def cause(folder: Path, **slurm: Any) -> Verdict:
    material = gather([folder])
    return find_cause(Evidence(material.logs, material.dumps, rank_nodes=material.nodes, **slurm))
