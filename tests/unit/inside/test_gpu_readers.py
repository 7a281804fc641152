"""Readers of the checks for GPUs: RCCL's log and files, output of rccl-tests and OSU, places."""

import os
import sys
import tempfile
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer import inside

from ...conftest import ROOT

TABLE = """\
# nThread 1 nGpus 1 minBytes 2097152 maxBytes 2147483648 step: 2(factor) iters: 80
#      size     count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
#       (B) (elements)                      (us) (GB/s) (GB/s)          (us) (GB/s) (GB/s)
    2097152   1048576   half   sum    -1  105.3  19.91  37.33      0  104.1  20.15  37.78      0
  134217728  67108864   half   sum    -1 2871.4  46.74  87.64      0 2872.0  46.73  87.62    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 62.5925
"""
MAPS = """\
7f0000000000-7f0000001000 r--p 00000000 08:01 1  /opt/rocm/lib/librccl.so.1.0.60404
7f0000001000-7f0000002000 r-xp 00001000 08:01 1  /opt/rocm/lib/librccl.so.1.0.60404
7f0000002000-7f0000003000 r-xp 00000000 08:01 2  /usr/lib/x86_64-linux-gnu/librccl-net-ofi.so
7f0000003000-7f0000004000 rw-p 00000000 00:00 0  [heap]
"""


with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "lumi_inside", inside)  # Its name in images.
    rccl, places, tests, osu = (
        SimpleNamespace(**run_path(str(ROOT / "recipes/layers" / file)))
        for file in (
            *("pytorch/checks/rocm/_rccl.py", "pytorch/checks/rocm/_places.py"),
            *("rccl-tests/checks/_rccl_tests.py", "osu/checks/_osu.py"),
        )
    )
SELECTED = "NET/OFI Selected provider is cxi, fabric is cxi\n"


def test_each_mapped_file_is_reported_once() -> None:
    library, plugin = "librccl.so.1.0.60404", "x86_64-linux-gnu/librccl-net-ofi.so"
    assert rccl.mapped(MAPS) == ([f"/opt/rocm/lib/{library}"], [f"/usr/lib/{plugin}"])
    assert list(rccl.wrong_files(MAPS)) == []
    assert list(rccl.wrong_plugin(MAPS)) == []


def test_a_process_without_rccl_and_one_with_the_wheels_are_reported() -> None:
    assert "has mapped no librccl.so" in next(rccl.wrong_files("7f-7f r-xp 0 0 0 [heap]\n"))
    other = MAPS.replace("/opt/rocm/lib/librccl", "/opt/venv/torch/lib/librccl")
    assert "is not the image's RCCL" in next(rccl.wrong_files(other))


def test_the_log_of_rccl_is_read_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "environ", {})
    for written in ("NCCL INFO\n", ""):
        log = Path(rccl.logged())
        if written:
            log.write_text(written)
        assert rccl.said(str(log)) == written
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["Provider", "provider"])
def test_both_spellings_of_the_provider_are_read(word: str) -> None:
    log = f"NCCL INFO NET/OFI Selected {word} is cxi\nNCCL INFO Using network Libfabric\n"
    assert list(rccl.wrong_network(log)) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("NET/OFI Selected Provider is tcp;ofi_rxm", "the provider tcp, not cxi"),
        ("NET/Socket : Using [0]hsn0", "goes through sockets: NET/Socket : Using [0]hsn0"),
        ("Using network Socket", "goes through sockets"),
        ("NET/Plugin: No plugin found (librccl-net.so)", "finds no network plugin"),
        ("NET/Plugin: Could not find: librccl-net.so", "finds no network plugin"),
        ("NET/Plugin: using internal implementation", "takes no network plugin"),
        ("NET/Plugin: Using internal network plugin.", "takes no network plugin"),
    ],
)
def test_bad_lines_are_reported_as_they_are(line: str, message: str) -> None:
    log = f"{SELECTED}nid1:1:1 NCCL INFO {line}\n"
    problems = [each.replace("nid1:1:1 NCCL INFO ", "") for each in rccl.wrong_network(log)]
    assert any(message in problem for problem in problems)


@pytest.mark.parametrize(
    "line",
    [
        "TUNER/Plugin: No plugin found (librccl-tuner.so)",
        "TUNER/Plugin: Could not find: librccl-tuner.so. Using internal tuner plugin.",
        "PROFILER/Plugin: Could not find: librccl-profiler.so.",
        "MSCCL: No external scheduler found, using internal implementation",
    ],
)
def test_what_rccl_has_no_plugin_for_beside_its_network_is_not_wrong(line: str) -> None:
    assert list(rccl.wrong_network(f"{SELECTED}nid1:1:1 NCCL INFO {line}\n")) == []


def test_a_log_that_says_nothing_is_wrong() -> None:
    assert len(list(rccl.wrong_network(""))) == 1
    assert len(list(rccl.wrong_connections("Connected all rings\n"))) == 1
    assert list(rccl.wrong_connections("Connected all rings\nConnected all trees\n")) == []


def test_a_table_of_rccl_tests_is_read() -> None:
    assert tests.rows(TABLE) == [(2097152, 37.33, 0), (134217728, 87.64, 0)]
    assert tests.slowest_of_last(TABLE) == 37.33
    assert list(tests.problems(TABLE, 16)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("values : 0 OK", "values : 12 FAILED", "12 FAILED"),
        ("# Out of bounds values : 0 OK\n", "", "does not say 'Out of bounds values : 0 OK'"),
        ("37.33      0", "37.33      3", "3 numbers are wrong with messages of 2097152 bytes"),
        (TABLE, "Test NCCL failure\n", "it says: Test NCCL failure"),
        (TABLE, "", "nothing at all"),
    ],
)
def test_a_wrong_run_is_reported(old: str, new: str, message: str) -> None:
    assert old in TABLE
    assert any(message in problem for problem in tests.problems(TABLE.replace(old, new), 16))


def test_ranks_that_do_not_meet_are_reported() -> None:
    met = TABLE + "#  Rank  0 Group  0 Pid   1 on nid1 device  0 [0xc1] AMD Instinct MI250X\n"
    assert "it ran on 1 of 2 ranks" in next(tests.problems(met, 2))
    assert list(tests.problems(met, 1)) == []


def test_a_table_of_osu_is_read() -> None:
    text = "# OSU MPI-ROCM Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n1048576  23912.40\n"
    assert osu.parse(text) == {1048576: 23912.40}
    assert osu.parse("[proxy:0] Abort(1) on node 0\n") == {}
    problems = list(osu.wrong({1048576: 1.0}, 0, 3, "aborted\nwhy"))
    assert problems == ["osu_bw between GCD 0 and 3 prints nothing for 64MiB: why"]


GPUS = [
    {"pci": "0000:C1:00.0", "cores": "49-55", "reserved": "48"},
    {"pci": "0000:c6:00.0", "cores": "57-63", "reserved": "56"},
    {"pci": "0000:c9:00.0", "cores": "17-23", "reserved": "16"},
]
PLATFORM = {"interface_prefix": "hsn", "gpus": GPUS}


def ranks(**changes: Any) -> list[dict[str, Any]]:
    """Return three ranks, each where it belongs; the first is changed."""
    rows = [
        {"rank": rank, "host": "nid1", "pci": gpu["pci"].lower(), "cores": gpu["cores"]}
        | {"nic": f"hsn{rank // 2}", "nic_up": True}
        for rank, gpu in enumerate(GPUS)
    ]
    return [{**rows[0], **changes}, *rows[1:]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        ({"cores": "48-55"}, ""),
        ({"cores": "50-51"}, ""),
        ({"cores": "50"}, "rank 0 on nid1 runs on core 50 alone, and its GPU has 49-55"),
        ({"cores": "1-7"}, "next to 49-55: another CCD"),
        ({"cores": "0-63"}, "another CCD"),
        ({"cores": "57-63"}, "ranks 0, 1 on nid1 have the same cores: 57-63"),
        ({"pci": "0000:c6:00.0", "cores": "58"}, "have the same GPU: 0000:c6:00.0"),
        ({"pci": ""}, "which the platform does not know"),
        ({"nic": ""}, "there is no interface hsn* next to its GPU"),
        ({"nic_up": False}, "hsn0, next to its GPU 0000:c1:00.0, is down"),
    ],
)
def test_where_ranks_run_is_judged(changes: dict[str, Any], message: str) -> None:
    problems = list(places.problems(ranks(**changes), PLATFORM))
    assert any(message in problem for problem in problems) if message else problems == []


def test_an_interface_serves_the_two_gpus_of_a_package() -> None:
    rows = [{**row, "nic": "hsn0"} for row in ranks()]
    assert any("3 ranks on nid1 have hsn0" in text for text in places.problems(rows, PLATFORM))
