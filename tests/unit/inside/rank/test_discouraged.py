"""What a user exports against better knowledge is obeyed, and said once, by one rank."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from lumicontainer.inside.rank.variables import is_meant

from .. import seen
from ..conftest import PATH, lay_out
from .test_variables import LUMI, World

GDR = {**seen.srun(0), "NCCL_NET_GDR_LEVEL": "PHB"}


@pytest.fixture
def lumi(tmp_path: Path) -> World:
    """Return a LUMI-G node, of an image with ROCm 6.4."""
    node = World(tmp_path)
    node.slingshot()
    node.rocm("6.4.4-129")
    (tmp_path / "tmp").mkdir()
    return node


def test_a_value_that_hangs_with_the_rocm_of_the_image_is_obeyed_with_a_warning(
    lumi: World,
) -> None:
    lumi.rocm("7.0.2")
    decision = lumi.decide(GDR)
    assert "NCCL_NET_GDR_LEVEL" not in decision.changes()
    (warned,) = decision.warnings
    assert warned.splitlines() == [
        "NCCL_NET_GDR_LEVEL=PHB is kept, but discouraged here (ROCm 7.0.2)",
        "    why: jobs of several nodes hang at their start with RCCL of ROCm 7, which needs no "
        "such setting [laifs-container-recipes issues 28 and 30; LUMI-AI-Guide pull request 97]",
        "   hint: unset NCCL_NET_GDR_LEVEL",
    ]


@pytest.mark.parametrize(
    ("version", "value"), [("6.4.4-129", "PHB"), ("7.0.2", "LOC"), ("7.0.2", "")]
)
def test_what_does_no_harm_to_this_image_gets_no_warning(
    lumi: World, version: str, value: str
) -> None:
    lumi.rocm(version)
    assert lumi.decide({**GDR, "NCCL_NET_GDR_LEVEL": value}).warnings == []


def test_what_lumi_entry_sets_itself_gets_no_warning(lumi: World) -> None:
    lumi.rocm("6.0.3")
    assert lumi.decide(seen.srun(0)).warnings == []


@pytest.mark.parametrize(
    ("name", "value", "warned"),
    [
        ("MIOPEN_USER_DB", "/tmp/x", True),
        ("NCCL_P2P_DISABLE", "1", True),
        ("NCCL_P2P_DISABLE", "0", False),
        ("NCCL_SOCKET_IFNAME", "nmn0", True),
        ("NCCL_SOCKET_IFNAME", "hsn0,hsn1", False),
        ("NCCL_NET", "Socket", True),
        ("NCCL_NET", "AWS Libfabric", False),
        ("MIOPEN_USER_DB_PATH", "/scratch/project_1/db", True),
        ("MIOPEN_USER_DB_PATH", "/tmp/db", False),
        ("LD_PRELOAD", "/usr/lib/libfabric.so.1 /opt/rocm/lib/librccl.so.1", True),
    ],
)
def test_the_table_of_lumi_g_knows_what_harms(
    lumi: World, name: str, value: str, *, warned: bool
) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    heard = lumi.decide({**seen.srun(0), name: value}).warnings
    assert [f"{name}={value} is kept" in each for each in heard] == [True] * warned


def test_print_env_shows_it_with_the_variable_in_the_platforms_table_or_not(lumi: World) -> None:
    lumi.rocm("7.0.2")
    rows = {each.name: each for each in lumi.decide({**GDR, "NCCL_P2P_DISABLE": "1"}).settings}
    for name in ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_DISABLE"):
        assert rows[name].why.startswith("set already; discouraged: ")
        assert rows[name].why.endswith("]")


def test_a_value_cannot_write_to_the_terminal(lumi: World) -> None:
    (warned,) = lumi.decide({**seen.srun(0), "MIOPEN_USER_DB": "\x1b]0;x\x07" + "y" * 200}).warnings
    assert "\x1b" not in warned
    assert len(warned.splitlines()[0]) < 200


def rank(launcher: Path, number: int, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [os.fspath(launcher), *(words or ("--", "true"))],
        env={"PATH": PATH, **seen.srun(number), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_of_the_ranks_of_a_job_one_says_it_and_all_start(tmp_path: Path) -> None:
    launcher = lay_out(tmp_path, {"name": "lumi-g", "discouraged": LUMI["discouraged"]})
    done = [rank(launcher, number, NCCL_P2P_DISABLE="1") for number in range(4)]
    assert [each.returncode for each in done] == [0] * 4
    assert done[0].stderr.startswith("warning: NCCL_P2P_DISABLE=1 is kept, but discouraged here\n")
    assert [each.stderr for each in done[1:]] == [""] * 3


def test_ranks_that_a_launcher_of_lumi_entry_made_do_not_say_it_again(tmp_path: Path) -> None:
    launcher = lay_out(tmp_path, {"name": "lumi-g", "discouraged": LUMI["discouraged"]})
    done = rank(launcher, 0, NCCL_P2P_DISABLE="1", LUMI_ENTRY_LAUNCHER="torchrun")
    assert (done.returncode, done.stderr) == (0, "")
    shown = rank(launcher, 0, "--print-env", "--json", NCCL_P2P_DISABLE="1")
    rows = {row["name"]: row for row in json.loads(shown.stdout)["variables"]}
    assert "discouraged" in rows["NCCL_P2P_DISABLE"]["why"]


def test_a_pattern_of_a_row_means_every_value_that_it_matches() -> None:
    assert is_meant({"values": ["PHB", "*librccl*"]}, "a librccl b")
    assert not is_meant({"values": ["PHB", "*librccl*"]}, "PHBX")
    assert not is_meant({"allowed_values": ["hsn*"]}, "hsn0")
    assert is_meant({"allowed_values": ["hsn*"]}, "eth0")


def test_a_row_without_values_means_every_value_but_none() -> None:
    assert is_meant({}, "x")
    assert not is_meant({}, "")
