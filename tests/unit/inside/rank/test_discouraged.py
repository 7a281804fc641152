"""What a user exports against better knowledge is obeyed, and said once, by one rank."""

import pytest

from lumicontainer.inside.rank.node_launcher import STARTED
from lumicontainer.inside.rank.variables import is_meant

from .. import seen
from ..conftest import Env
from .conftest import World

GDR = {**seen.srun(0), "NCCL_NET_GDR_LEVEL": "PHB"}


def test_a_value_that_hangs_with_the_image_s_rocm_is_obeyed_with_a_warning(lumi: World) -> None:
    lumi.write("opt/rocm/.info/version", "7.0.2")
    decision = lumi.decide(GDR)
    assert "NCCL_NET_GDR_LEVEL" not in decision.changes()
    (warned,) = decision.warnings
    first, why, hint = warned.splitlines()
    assert first == "NCCL_NET_GDR_LEVEL=PHB is kept, but discouraged here (ROCm 7.0.2)"
    assert why.startswith("    why: jobs of several nodes hang at their start with RCCL of ROCm 7")
    assert why.endswith("97]")
    assert hint == "   hint: unset NCCL_NET_GDR_LEVEL"


@pytest.mark.parametrize("value", ["SYS", "3", "4", "5"])
def test_a_number_is_the_level_that_it_stands_for(lumi: World, value: str) -> None:
    lumi.write("opt/rocm/.info/version", "7.0.2")
    (warned,) = lumi.decide({**GDR, "NCCL_NET_GDR_LEVEL": value}).warnings
    assert warned.startswith(f"NCCL_NET_GDR_LEVEL={value} is kept")


@pytest.mark.parametrize(
    ("version", "env"),
    [
        ("6.4.4-129", GDR),
        ("7.0.2", {**GDR, "NCCL_NET_GDR_LEVEL": "2"}),
        ("7.0.2", {**GDR, "NCCL_NET_GDR_LEVEL": "LOC"}),
        ("7.0.2", {**GDR, "NCCL_NET_GDR_LEVEL": ""}),
        pytest.param("6.0.3", seen.srun(0), id="set by lumi-entry itself"),
    ],
)
def test_what_does_no_harm_here_gets_no_warning(lumi: World, version: str, env: Env) -> None:
    lumi.write("opt/rocm/.info/version", version)
    assert lumi.decide(env).warnings == []


@pytest.mark.parametrize(
    ("name", "value", "warned"),
    [
        ("MIOPEN_USER_DB", "/tmp/x", True),
        ("NCCL_P2P_DISABLE", "1", True),
        ("NCCL_P2P_DISABLE", "0", False),
        ("NCCL_SOCKET_IFNAME", "nmn0", True),
        ("NCCL_SOCKET_IFNAME", "hsn0,hsn1", False),
        ("NCCL_SOCKET_IFNAME", "=hsn0,hsn1,hsn2,hsn3", False),
        ("NCCL_SOCKET_IFNAME", "hsn0,hsn1,nmn0", True),
        ("NCCL_SOCKET_IFNAME", "=hsn0,nmn0", True),
        ("NCCL_SOCKET_IFNAME", "eth0,nmn0", True),
        ("NCCL_SOCKET_IFNAME", "nmn0,hsn0", True),
        ("NCCL_SOCKET_IFNAME", "^hsn", True),
        ("NCCL_SOCKET_IFNAME", "^=hsn0", True),
        ("NCCL_SOCKET_IFNAME", "^lo,hsn0", True),
        ("NCCL_SOCKET_IFNAME", "^lo,nmn0", False),
        ("NCCL_NET", "Socket", True),
        ("NCCL_NET", "AWS Libfabric", False),
        ("MIOPEN_USER_DB_PATH", "/scratch/project_1/db", True),
        ("MIOPEN_USER_DB_PATH", "/tmp/db", False),
        ("LD_PRELOAD", "/usr/lib/libfabric.so.1 /opt/rocm/lib/librccl.so.1", True),
    ],
)
def test_lumi_g_s_table_knows_what_harms(lumi: World, name: str, value: str, warned: bool) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    heard = lumi.decide({**seen.srun(0), name: value}).warnings
    assert [f"{name}={value} is kept" in each for each in heard] == [True] * warned


def test_print_env_shows_it_with_the_variable_in_the_platforms_table_or_not(lumi: World) -> None:
    lumi.write("opt/rocm/.info/version", "7.0.2")
    rows = lumi.settings({**GDR, "NCCL_P2P_DISABLE": "1"})
    for name in ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_DISABLE"):
        assert rows[name].why.startswith("set already; discouraged: ")
        assert rows[name].why.endswith("]")


def test_ranks_that_a_launcher_of_lumi_entry_made_do_not_say_it_again(lumi: World) -> None:
    env = {**seen.srun(0), "NCCL_P2P_DISABLE": "1", STARTED: "torchrun"}
    assert lumi.decide(env).warnings == []
    assert "discouraged" in lumi.settings(env)["NCCL_P2P_DISABLE"].why


def test_a_value_cannot_write_to_the_terminal(lumi: World) -> None:
    (warned,) = lumi.decide({**seen.srun(0), "MIOPEN_USER_DB": "\x1b]0;x\x07" + "y" * 200}).warnings
    assert "\x1b" not in warned
    assert len(warned.splitlines()[0]) < 200


@pytest.mark.parametrize(
    ("row", "value", "meant"),
    [
        ({"values": ["PHB", "*librccl*"]}, "a librccl b", True),
        ({"values": ["PHB", "*librccl*"]}, "PHBX", False),
        ({"allowed_values": ["hsn*"]}, "hsn0", False),
        ({"allowed_values": ["hsn*"]}, "eth0", True),
        ({}, "x", True),
        ({}, "", False),
    ],
)
def test_a_row_means_values_that_match(row: dict[str, list[str]], value: str, meant: bool) -> None:
    assert is_meant(row, value) is meant
