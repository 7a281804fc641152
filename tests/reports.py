"""Results of verifications that a report is made of: all well, one failed, many ranks, pictures."""

from typing import Any

from lumicontainer.inside.verify import report
from lumicontainer.inside.verify.outcome import FAILED, PASSED, SKIPPED, Outcome
from lumicontainer.verify import results

BANDWIDTH = {
    "title": "all_reduce",
    "unit": "GB/s",
    "series": [{"name": "all_reduce <8 ranks>", "points": [[1 << p, p * 4.5] for p in range(28)]}],
    "references": [{"name": "reference", "value": 125, "source": "a guide & its page"}],
}
RANKS = [
    {"rank": rank, "host": f"nid00500{1 + rank // 8}", "gcd": rank % 8, "pci": f"0000:c{rank}:00.0"}
    | {"ccd": rank % 8, "cores": "49-55", "numa": rank % 8 // 2, "nic": f"hsn{rank % 4}"}
    for rank in range(16)
]
LONG = "/opt/venv/lib/python3.11/site-packages/deepspeed/ops/adam/fused_adam.py" * 3


def row(name: str, state: str = PASSED, reason: str = "", **more: Any) -> dict[str, Any]:
    """Return what came of a check."""
    said = {"name": name, "summary": f"{name} holds", "level": "quick", "hint": "build it again"}
    return {**results.row(said, Outcome(state, reason)), "seconds": 1.5, **more}


def result(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the result that holds these rows."""
    return {
        "form": report.FORM,
        "lumicontainer": "1.0",
        "image": {"recipe": "r", "platform": {"name": "p"}, "profile": ""}
        | {"file": f"/{LONG}.sif", "key": "0" * 64, "sha256": "5" * 64},
        "engine": "apptainer version 1.4.5",
        "level": "quick",
        "begun": "2026-01-01T00:00:00Z",
        "seconds": 9.0,
        "place": {"host": "nid005001", "nodes": 2, "ranks": 16, "gpus": 0}
        | {"architecture": "", "network": ""},
        "counts": report.counts(rows),
        "checks": list(rows),
    }


_FAILED = row("a/failed", FAILED, f"it is not there: {LONG}", output=f"{LONG}\n" * 30) | {
    "again": f"lumicontainer verify {LONG}.sif -k a/failed"
}
_OF_RANKS = [
    {"rank": rank, "host": f"nid{rank // 8:06}", "state": FAILED if rank == 63 else PASSED}
    | {"halted": False, "reason": LONG, "seconds": 60.0}
    for rank in range(64)
]
_MEASURED = [
    {"name": "bandwidth_of_all_reduce", "value": 90.0, "holds": False, "unit": "GB/s"}
    | {"minimum": 100, "reference": 125, "source": LONG},
    {"name": "latency", "value": None, "holds": None, "unjudged": "it was measured on gfx90a"},
]
RESULTS = {
    "all passed": result(row("a/b"), row("a/c")),
    "one failed": result(_FAILED, row("a/skipped", SKIPPED, f"no GPU: {LONG}"), row("a/b")),
    "many ranks": result(row("a/ranks", FAILED, "on rank 63 of 64", ranks=_OF_RANKS)),
    "pictures": result(
        row("a/pictures", facts={"bandwidth": BANDWIDTH, "ranks": RANKS}, measured=_MEASURED)
    ),
}
