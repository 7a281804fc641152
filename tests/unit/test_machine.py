"""Compile jobs fit the memory that this process may use."""

from pathlib import Path

import pytest

from lumicontainer.host.machine import free_memory

GIB = 1 << 30
V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"


def host(root: Path, cgroup: str, **limits: str) -> Path:
    """Write the files in which Linux reports memory: 100 GiB available, and limits of groups."""
    files = {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {100 * GIB >> 10} kB\n"}
    for path, text in {**files, "proc/self/cgroup": cgroup, **limits}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "limits", "free"),
    [
        ("0::/\n", {}, 100),
        ("0::/job/step\n", {f"{V2}/job/memory.max": str(8 * GIB)}, 8),
        ("0::/job/step\n", {f"{V2}/job/step/memory.max": "max\n"}, 100),
        ("4:memory:/job\n1:cpu:/\n", {f"{V1}/job/memory.limit_in_bytes": str(16 * GIB)}, 16),
        ("4:memory:/job\n", {f"{V1}/memory.limit_in_bytes": str(1 << 62)}, 100),
        ("4:cpuset:/job\n", {"sys/fs/cgroup/cpuset/job/memory.limit_in_bytes": "1"}, 100),
    ],
)
def test_memory_is_free_within_the_limits_of_the_control_group(
    tmp_path: Path, cgroup: str, limits: dict[str, str], free: int
) -> None:
    assert free_memory(host(tmp_path, cgroup, **limits)) == free * GIB


def test_the_memory_of_this_host_is_found() -> None:
    assert GIB >> 4 < free_memory() < 1 << 50
