"""Read what all_reduce_perf and the other programs of rccl-tests print."""

import re

_ROW = re.compile(
    r"(?m)^\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+"
    r"[\d.]+\s+[\d.]+\s+([\d.]+)\s+(\d+|N/A)\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s+(\d+|N/A)"
)
_RANK = re.compile(r"(?m)^#\s+Rank\s+\d+\b")
_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(\d+)\s+(\w+)")
LAST = 5
"""The sizes that AMD judges: the largest ones."""


def rows(text):
    """Return a row a size: bytes, bandwidth of the links (out of place) in GB/s, wrong numbers."""
    return [
        (int(size), float(outside), sum(int(each) for each in (one, two) if each != "N/A"))
        for size, outside, one, _, two in _ROW.findall(text)
    ]


def problems(text, ranks):
    """Yield what is wrong with a run of all ranks; silence about its numbers is wrong too."""
    met = len(_RANK.findall(text))
    if met and met != ranks:
        yield (
            f"it ran on {met} of {ranks} ranks: MPI did not find the others, as without srun "
            "--mpi=pmi2"
        )
    found = rows(text)
    if not found:
        last = text.strip().splitlines()[-1:] or ["nothing at all"]
        yield f"it prints no measurement; it says: {last[0].strip()}"
        return
    for size, _, wrong in found:
        if wrong:
            yield f"{wrong} numbers are wrong with messages of {size} bytes"
    bounds = _BOUNDS.search(text)
    if bounds is None:
        yield "it does not say 'Out of bounds values : 0 OK'"
    elif bounds.groups() != ("0", "OK"):
        yield f"it says 'Out of bounds values : {bounds[1]} {bounds[2]}'"


def slowest_of_last(text):
    """Return the lowest bandwidth of the largest sizes, GB/s."""
    return min(bandwidth for _, bandwidth, _ in rows(text)[-LAST:])
