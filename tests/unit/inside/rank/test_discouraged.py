"""Discouraged variables of a user stay, and one rank warns once."""

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


@pytest.mark.slow
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
        ("NCCL_NET", "OFI", False),
        ("OFI_NCCL_PROTOCOL", "RDMA", True),
        ("OFI_NCCL_PROTOCOL", "SENDRECV", False),
        ("GLOO_SOCKET_IFNAME", "eth0", True),
        ("GLOO_SOCKET_IFNAME", "hsn0", False),
        ("GLOO_SOCKET_IFNAME", "hsn0,eth0", True),
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0", True),
        ("HSA_OVERRIDE_GFX_VERSION", "9.0.10", False),
        ("PYTORCH_ROCM_ARCH", "gfx942", True),
        ("PYTORCH_ROCM_ARCH", "gfx90a;gfx942", False),
        ("GPU_ARCHS", "gfx942", True),
        ("GPU_ARCHS", "gfx90a", False),
        ("GPU_ARCHS", "native", False),
        ("HCC_AMDGPU_TARGET", "gfx1100", True),
        ("HCC_AMDGPU_TARGET", "gfx90a,gfx942", False),
        ("MIOPEN_USER_DB_PATH", "/scratch/project_1/db", True),
        ("MIOPEN_USER_DB_PATH", "/tmp/db", False),
        ("LD_PRELOAD", "/usr/lib/libfabric.so.1 /opt/rocm/lib/librccl.so.1", True),
    ],
)
def test_lumi_g_s_table_knows_what_harms(lumi: World, name: str, value: str, warned: bool) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    heard = lumi.decide({**seen.srun(0), name: value}).warnings
    assert [f"{name}={value} is kept" in each for each in heard] == [True] * warned


@pytest.mark.parametrize(
    ("layers", "value", "warned"),
    [
        ({"libfabric": "2.6.0", "aws-ofi-nccl": "1.20.0"}, "RDMA", False),
        ({"libfabric": "2.6.0", "aws-ofi-nccl": "1.19.0"}, "RDMA", True),
        ({"libfabric": "2.1", "aws-ofi-nccl": "1.20.0"}, "rdma", True),
    ],
)
def test_the_plugin_s_protocol_rdma_needs_a_newer_libfabric_and_plugin(
    lumi: World, layers: dict[str, str], value: str, warned: bool
) -> None:
    lumi.layers |= layers
    heard = lumi.decide({**seen.srun(0), "OFI_NCCL_PROTOCOL": value}).warnings
    assert ["OFI_NCCL_PROTOCOL" in each for each in heard] == [True] * warned


def test_the_older_plugin_does_not_know_the_newer_one_s_name(lumi: World) -> None:
    lumi.layers = {"aws-ofi-rccl": "1.4.0"}
    (heard,) = lumi.decide({**seen.srun(0), "NCCL_NET": "OFI"}).warnings
    assert "knows the name AWS Libfabric alone" in heard


def nodes(number: int, **env: str) -> Env:
    listed = f"nid[{5001:06}-{5000 + number:06}]"
    return {**seen.srun(0), **seen.step(0, listed, 8 * number, f"8(x{number})", number), **env}


CHANNELS = "NCCL_MAX_NCHANNELS"


@pytest.mark.parametrize(
    ("env", "plugin", "heard"),
    [
        (nodes(8), "1.20.0", f"{CHANNELS}=20 is advised here (nodes 8, aws-ofi-nccl 1.20.0)"),
        (nodes(8), "1.19.2", f"{CHANNELS}=20 is advised here (nodes 8, aws-ofi-nccl 1.19.2)"),
        (nodes(8, **{CHANNELS: "32"}), "1.20.0", f"{CHANNELS}=32 is kept, but discouraged here"),
        (nodes(8, **{CHANNELS: "112"}), "1.20.0", f"{CHANNELS}=112 is kept, but discouraged here"),
        (nodes(8, **{CHANNELS: "20"}), "1.20.0", ""),
        (nodes(8, **{CHANNELS: "4"}), "1.20.0", ""),
        (nodes(8, **{CHANNELS: ""}), "1.20.0", ""),
        (nodes(8), "1.19.0", ""),
        (nodes(7), "1.20.0", ""),
        (nodes(8, **{STARTED: "torchrun"}), "1.20.0", ""),
    ],
)
def test_from_8_nodes_on_a_limit_of_channels_is_advised_and_not_set(
    lumi: World, env: Env, plugin: str, heard: str
) -> None:
    lumi.layers["aws-ofi-nccl"] = plugin
    decision = lumi.decide(env)
    assert CHANNELS not in decision.changes()
    assert [each.startswith(heard) for each in decision.warnings] == [True] * bool(heard)


def test_a_job_without_the_newer_plugin_needs_no_limit_of_channels(lumi: World) -> None:
    lumi.layers = {"aws-ofi-rccl": "1.4.0"}
    assert lumi.decide(nodes(16)).warnings == []


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
