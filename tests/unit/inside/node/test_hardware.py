"""The kernel's files describe a LUMI-G node, whole or broken, and of nodes that have nothing."""

import os
from pathlib import Path

import pytest

from lumicontainer.inside.node.hardware import Node

from .. import lumi_node
from ..lumi_node import BUSES, pci


def node(root: Path) -> Node:
    return Node(os.fspath(root))


def places(root: Path) -> list[str]:
    return [gpu.pci for gpu in node(root).gpus()]


def test_the_gcds_are_in_the_order_of_rocr(whole: Path) -> None:
    assert places(whole) == [pci(bus) for bus in BUSES]
    assert {gpu.arch for gpu in node(whole).gpus()} == {"gfx90a"}
    assert node(whole).gpus()[0].uuid == "GPU-c100000000000000"
    assert node(whole).hidden_gpus() == 0


@pytest.mark.parametrize(
    "buses",
    [BUSES[::-1], BUSES[1:], ("c1", "d1"), ()],
    ids=["another order", "a missing GCD", "two", "none"],
)
def test_the_gpus_are_those_that_are_there(tmp_path: Path, buses: tuple[str, ...]) -> None:
    lumi_node.write(tmp_path, buses=buses)
    assert places(tmp_path) == [pci(bus) for bus in buses]


def test_gpus_of_a_cgroup_or_without_a_render_node_are_counted_not_listed(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, hidden=("c1", "ce"))
    (tmp_path / "dev/dri/renderD129").unlink()
    assert places(tmp_path) == [pci(bus) for bus in BUSES if bus not in ("c1", "c6", "ce")]
    assert node(tmp_path).hidden_gpus() == 3


def test_a_node_without_kfd_has_no_gpus(tmp_path: Path) -> None:
    empty = node(tmp_path)
    assert (empty.gpus(), empty.hidden_gpus(), empty.interfaces("hsn")) == ([], 0, [])
    assert (empty.ccd(0), empty.siblings(3)) == (frozenset(), {3})
    assert empty.numa(pci("c1")) is None
    assert empty.names("sys/class/cxi") == []


def test_a_gpu_knows_its_numa_node_unless_the_kernel_does_not(whole: Path) -> None:
    (whole / f"sys/bus/pci/devices/{pci('de')}/numa_node").write_text("-1\n")
    assert [node(whole).numa(pci(bus)) for bus in BUSES] == [3, 3, 1, 1, 0, 0, 2, None]


def test_the_interfaces_have_the_prefix(whole: Path) -> None:
    (whole / "sys/class/net/hsn1/operstate").write_text("down\n")
    (whole / "sys/class/net/hsn2/operstate").write_text("unknown\n")
    (whole / "sys/class/net/hsn0.100").mkdir()
    assert node(whole).interfaces("hsn") == [
        ("hsn0", pci("c5"), True),
        ("hsn1", pci("cd"), False),
        ("hsn2", pci("d5"), True),
        ("hsn3", pci("dd"), True),
    ]


def nearest(root: Path, bus: str) -> str | None:
    interface = node(root).nearest(pci(bus), node(root).interfaces("hsn"))
    return interface.name if interface else None


def test_the_nearest_interface_is_below_the_root_of_the_gpu(whole: Path) -> None:
    names = [nearest(whole, bus) for bus in BUSES]
    assert names == ["hsn0", "hsn0", "hsn1", "hsn1", "hsn2", "hsn2", "hsn3", "hsn3"]


def test_without_a_common_root_the_nearest_interface_is_of_its_numa_node(tmp_path: Path) -> None:
    lumi_node.write(tmp_path, nics={"hsn0": "d5"})
    (tmp_path / f"sys/bus/pci/devices/{pci('d5')}/numa_node").write_text("2\n")
    assert nearest(tmp_path, "d9") == "hsn0"
    assert nearest(tmp_path, "c1") is None


@pytest.mark.parametrize("smt", [True, False])
def test_a_ccd_holds_eight_cores_and_their_second_threads(tmp_path: Path, smt: bool) -> None:
    lumi_node.write(tmp_path, smt=smt)
    whole = node(tmp_path)
    assert whole.ccd(50) == {*range(48, 56), *(range(112, 120) if smt else ())}
    assert whole.siblings(50) == ({50, 114} if smt else {50})


def test_asking_where_a_process_could_run_leaves_it_where_it_is() -> None:
    here = Node()
    before = here.affinity()
    assert here.permitted({min(before), 4000}) == {min(before)}
    assert here.permitted({4000}) == frozenset()
    assert here.affinity() == before
