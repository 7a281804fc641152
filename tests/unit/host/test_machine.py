"""Compile jobs fit the memory that this process may use."""

from pathlib import Path

import pytest

from lumicontainer.host.machine import free_memory

GIB = 1 << 30
V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"


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
    available = f"MemTotal: 1 kB\nMemAvailable: {100 * GIB >> 10} kB\n"
    files = {"proc/meminfo": available, "proc/self/cgroup": cgroup, **limits}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert free_memory(tmp_path) == free * GIB


def test_the_memory_of_this_host_is_found() -> None:
    assert GIB >> 4 < free_memory() < 1 << 50
