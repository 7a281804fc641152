"""Read and write sets of processors in the kernel's form: ``0-7,64-71``."""

from collections.abc import Iterable

MOST = 8192  # the most processors that Linux supports (NR_CPUS on x86-64)


def parse_cpus(text: str, most: int = MOST) -> frozenset[int]:
    """Return the numbers of a list such as ``0-7,64-71``.

    Raises ValueError if it is invalid, or has a number that is not below ``most``.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < most:
            raise ValueError(f"invalid list of processors '{text.strip()[:200]}'")
        numbers.update(range(low, high + 1))
    return frozenset(numbers)


def written(cpus: Iterable[int]) -> str:
    """Return the shortest list that ``parse_cpus`` reads as ``cpus``; empty for an empty set."""
    every = set(cpus)
    firsts = sorted(cpu for cpu in every if cpu - 1 not in every)
    lasts = sorted(cpu for cpu in every if cpu + 1 not in every)
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in zip(firsts, lasts))
