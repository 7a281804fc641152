"""Sets of processors, as the kernel writes them: ``0-7,64-71``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 8192
"""More processors than Linux can be built for (NR_CPUS on x86-64)."""


def parse(text: str) -> frozenset[int]:
    """Return the processors of a list like ``0-7,64-71``; raise ValueError where it is none."""
    found: set[int] = set()
    for part in text.split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < MOST:
            raise ValueError(f"no list of processors: '{text.strip()[:200]}'")
        found.update(range(low, high + 1))
    return frozenset(found)


def written(cpus: Iterable[int]) -> str:
    """Return the shortest list that ``parse`` reads as ``cpus``; empty for none."""
    runs: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)
