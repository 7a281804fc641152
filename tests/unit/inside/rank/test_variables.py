"""The platform's variables are set where they fit the image, the node and the run, and say why."""

from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import platform_tables
from lumicontainer.inside.entry.decide import MARK, Decision, without_own
from lumicontainer.inside.environment import USER
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank import caches
from lumicontainer.inside.rank.context import Options

from .. import seen
from ..deciding import decide

LUMI = {"name": "lumi-g", **platform_tables(open_catalog().platform("lumi-g"))}
ALONE = {"PATH": "/bin"}


class World:
    """A root folder in which a test writes what the kernel and the image state."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layers = {"rocm": "", "aws-ofi-nccl": "1.20.0", "libfabric": "2.1"}

    def write(self, file: str, text: str) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def rocm(self, version: str) -> None:
        self.write("opt/rocm/.info/version", f"{version}\n")

    def slingshot(self, rdzv_get_en: str = "1") -> None:
        for number in range(4):
            self.write(
                f"sys/class/cxi/cxi{number}/device/properties/rdzv_get_en", f"{rdzv_get_en}\n"
            )
            self.write(f"sys/class/net/hsn{number}/operstate", "up\n")
        self.write("sys/class/net/nmn0/operstate", "up\n")

    def decide(
        self,
        env: dict[str, str],
        table: dict[str, Any] | None = None,
        options: Options | None = None,
    ) -> Decision:
        platform = {**(table or LUMI), "layers": self.layers}
        return decide(env, node=Node(str(self.root)), platform=platform, options=options)

    def values(
        self, env: dict[str, str], table: dict[str, Any] | None = None
    ) -> dict[str, str | None]:
        return {each.name: each.value for each in self.decide(env, table).settings}

    def why(self, env: dict[str, str], name: str) -> str:
        return next(each.why for each in self.decide(env).settings if each.name == name)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def lumi(world: World) -> World:
    """Two nodes' worth of a LUMI-G node: Slingshot is there, and the image has ROCm 6.4."""
    world.slingshot()
    world.rocm("6.4.4-129")
    return world


@pytest.mark.parametrize(
    ("version", "value"),
    [("6.1.3", "PHB"), ("6.0", "PHB"), ("6.2.0-66", None), ("6.4.4-129", None), ("7.0.2", None)],
)
def test_the_gdr_level_is_set_for_the_rocm_that_needs_it_and_never_for_one_that_hangs(
    lumi: World, version: str, value: str | None
) -> None:
    lumi.rocm(version)
    assert lumi.values(seen.srun(0))["NCCL_NET_GDR_LEVEL"] == value
    assert f"ROCm {version}" in lumi.why(seen.srun(0), "NCCL_NET_GDR_LEVEL")


def test_without_the_image_s_own_word_the_layer_gives_the_version_of_rocm(world: World) -> None:
    world.slingshot()
    world.layers["rocm"] = "6.0.3"
    assert world.values(seen.srun(0))["NCCL_NET_GDR_LEVEL"] == "PHB"


@pytest.mark.parametrize("text", ["", "unknown\n"])
def test_what_hangs_with_some_versions_is_not_set_where_the_version_is_unknown(
    world: World, text: str
) -> None:
    world.slingshot()
    world.write("opt/rocm/.info/version", text)
    assert world.values(seen.srun(0))["NCCL_NET_GDR_LEVEL"] is None


def test_without_a_slingshot_device_nothing_of_the_network_is_set(world: World) -> None:
    world.rocm("6.0.3")
    world.write("sys/class/net/hsn0/operstate", "up\n")
    (world.root / "sys/class/cxi").mkdir(parents=True)
    got = {name for name, value in world.values(seen.srun(0)).items() if value}
    assert not [name for name in got if name.startswith(("NCCL_", "FI_", "HSA_"))]
    assert "no cxi device" in world.why(seen.srun(0), "NCCL_NET")


def test_the_plugin_is_demanded_across_nodes_only(lumi: World) -> None:
    assert lumi.values({**seen.srun(0), "SLURM_STEP_NUM_NODES": "1"})["NCCL_NET"] is None
    assert lumi.values(ALONE)["NCCL_NET"] is None
    for plugin in ("aws-ofi-nccl", "aws-ofi-rccl"):
        lumi.layers = {"rocm": "", plugin: ""}
        assert lumi.values(seen.srun(0))["NCCL_NET"] == "AWS Libfabric"
    lumi.layers = {}
    assert lumi.values(seen.srun(0))["NCCL_NET"] is None
    assert "no network plugin" in lumi.why(seen.srun(0), "NCCL_NET")


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({"ranks": ">=4"}, True),
        ({"ranks": "<4"}, False),
        ({"libfabric": ">=2"}, True),
        ({"libfabric": "<2"}, False),
        ({"slingshot": ">=1"}, False),
        ({"plugin": "aws-ofi-nccl"}, True),
        ({"plugin": "aws-ofi-nccl >=1.20"}, True),
        ({"plugin": "aws-ofi-nccl <1.20"}, False),
        ({"plugin": "aws-ofi-rccl"}, False),
        ({"ranks": "4", "nodes": "2", "libfabric": "2.1"}, True),
        ({"ranks": "4", "nodes": "1", "libfabric": "2.1"}, False),
        ({}, True),
    ],
)
def test_all_conditions_of_a_row_must_hold(lumi: World, when: dict[str, str], holds: bool) -> None:
    row = {"name": "A", "value": "x", "reason": "w", "source": "s", "when": when}
    assert lumi.values(seen.srun(0), {"variables": [row]})["A"] == ("x" if holds else None)


def test_of_several_rows_the_one_that_holds_gives_the_value(lumi: World) -> None:
    rows = [
        {"name": "A", "value": old, "reason": "w", "source": "s", "when": {"rocm": limits}}
        for old, limits in (("old", "<6.2"), ("new", ">=6.2"))
    ]
    assert lumi.values(ALONE, {"variables": rows})["A"] == "new"
    lumi.rocm("6.1")
    assert lumi.values(ALONE, {"variables": rows})["A"] == "old"


@pytest.mark.parametrize(
    ("network", "rdzv_get_en", "value"),
    [
        (None, "1", None),
        (None, "0", None),
        ("single_node_vni,disable_rdzv_get", "0", "alt_read"),
        ("job_vni", "0", None),
        ("disable_rdzv_get", "1", None),
        ("disable_rdzv_get", "", "alt_read"),
    ],
)
def test_alt_read_is_used_only_with_srun_s_option_that_frees_the_device_for_it(
    lumi: World, network: str | None, rdzv_get_en: str, value: str | None
) -> None:
    lumi.slingshot(rdzv_get_en)
    decision = lumi.decide({**seen.srun(0), **({"SLURM_NETWORK": network} if network else {})})
    assert {each.name: each.value for each in decision.settings}["FI_CXI_RDZV_PROTO"] == value
    warned = network == "disable_rdzv_get" and rdzv_get_en == "1"
    assert len([text for text in decision.warnings if "rdzv_get_en=1" in text]) == warned


def test_rccl_meets_on_the_interfaces_that_are_up(lumi: World) -> None:
    assert lumi.values(ALONE)["NCCL_SOCKET_IFNAME"] == "hsn0,hsn1,hsn2,hsn3"
    lumi.write("sys/class/net/hsn1/operstate", "down\n")
    lumi.write("sys/class/net/hsn3/operstate", "unknown\n")
    lumi.write("sys/class/net/hsnx/operstate", "up\n")
    assert lumi.values(ALONE)["NCCL_SOCKET_IFNAME"] == "hsn0,hsn2,hsn3"
    for number in range(4):
        lumi.write(f"sys/class/net/hsn{number}/operstate", "down\n")
    assert lumi.values(ALONE)["NCCL_SOCKET_IFNAME"] is None
    assert "no interface hsn* is up" in lumi.why(ALONE, "NCCL_SOCKET_IFNAME")


OLD = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
NEW = ("TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE")


@pytest.mark.parametrize(("version", "names"), [("2.7.1", OLD), ("2.8.0", NEW), ("2.10.0", NEW)])
def test_the_flight_recorder_is_on_by_the_names_of_its_pytorch(
    lumi: World, version: str, names: tuple[str, str]
) -> None:
    lumi.layers["pytorch"] = version
    got = lumi.decide(seen.srun(0), options=Options(log_dir="/logs/here")).changes()
    recorder = {name: value for name, value in got.items() if name in {*OLD, *NEW}}
    assert recorder == {names[0]: "2000", names[1]: "/logs/here/1.0-flight-recorder-rank"}
    assert got["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"


def test_the_flight_recorder_is_off_on_one_node_without_a_known_pytorch_and_by_old_names(
    lumi: World,
) -> None:
    assert not {*OLD, *NEW} & lumi.decide(seen.srun(0)).changes().keys()
    lumi.layers["pytorch"] = "2.9.1"
    one = {**seen.srun(0), "SLURM_STEP_NUM_NODES": "1"}
    assert not {*OLD, *NEW} & lumi.decide(one).changes().keys()
    decision = lumi.decide({**seen.srun(0), **dict.fromkeys(OLD, "0")})
    assert not {*OLD, *NEW} & decision.changes().keys()
    why = next(each.why for each in decision.settings if each.name == NEW[0])
    assert why == "TORCH_NCCL_TRACE_BUFFER_SIZE is set instead"


def test_a_program_in_another_folder_finds_the_log_folder(
    lumi: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lumi.layers["pytorch"] = "2.9.1"
    got = lumi.decide(seen.srun(0), options=Options(log_dir="logs")).changes()
    assert got["TORCH_FR_DUMP_TEMP_FILE"] == f"{tmp_path}/logs/1.0-flight-recorder-rank"


def on_scratch(lumi: World) -> tuple[dict[str, str], Path]:
    """Give the job a project's folder on /scratch; return its environment and the user's own."""
    project = lumi.root / "scratch/project_465000001"
    project.mkdir(parents=True)
    env = {**seen.srun(0), "SLURM_JOB_ACCOUNT": project.name, "USER": "me"}
    return env, project / "me/flight-recorder"


def test_without_a_log_folder_it_writes_to_a_private_one_on_scratch(lumi: World) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    env, folder = on_scratch(lumi)
    decision = lumi.decide(env)
    got = decision.changes()["TORCH_FR_DUMP_TEMP_FILE"]
    assert got == f"{folder}/1.0-flight-recorder-rank"
    caches.make_recorder(decision.context)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert decision.context.notes == []


def test_a_folder_of_the_recorder_that_others_could_read_is_reported_and_the_program_starts(
    lumi: World,
) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    env, folder = on_scratch(lumi)
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    decision = lumi.decide(env)
    caches.make_recorder(decision.context)
    (note,) = decision.context.notes
    assert note.startswith(f"warning: PyTorch's flight recorder cannot write to {folder}: ")
    other = lumi.decide({**env, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"})
    caches.make_recorder(other.context)
    assert other.context.notes == []


def test_without_scratch_the_place_is_left_to_pytorch(lumi: World) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    assert lumi.values(seen.srun(0))["TORCH_FR_DUMP_TEMP_FILE"] is None
    assert lumi.values(seen.srun(0))["TORCH_FR_BUFFER_SIZE"] == "2000"


@pytest.mark.parametrize("value", ["SYS", ""])
def test_what_the_user_set_stays_even_where_it_is_empty(lumi: World, value: str) -> None:
    env = {**seen.srun(0), "NCCL_NET": value}
    decision = lumi.decide(env)
    row = next(each for each in decision.settings if each.name == "NCCL_NET")
    assert (row.value, row.origin) == (value, USER)
    assert "NCCL_NET" not in decision.changes()


def test_each_says_why_and_from_where_it_is_known(lumi: World) -> None:
    decision = lumi.decide(seen.srun(0))
    rows = {each.name: each for each in decision.settings}
    assert rows["NCCL_NET"].origin == "platform lumi-g"
    assert "nodes 2" in rows["NCCL_NET"].why
    assert "[HPE shs-ccl-docs" in rows["NCCL_NET"].why
    for row in LUMI["variables"]:
        setting = rows[row["name"]]
        assert row["source"] in setting.why if setting.value else "left unset: " in setting.why


def test_a_lumi_entry_further_in_does_not_take_a_value_of_two_words_for_the_user_s(
    lumi: World,
) -> None:
    env = seen.srun(0)
    changes = lumi.decide(env).changes()
    assert changes["NCCL_NET"] == "AWS Libfabric"
    assert MARK in changes
    assert without_own({**env, **changes}) == env


def test_mpi_across_nodes_is_known_from_its_local_ranks(lumi: World) -> None:
    env = {"PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
    assert lumi.values({**env, "MASTER_ADDR": "nid1"})["NCCL_NET"] == "AWS Libfabric"
    env = {**env, "PMI_SIZE": "2"}
    assert lumi.values(env)["NCCL_NET"] is None


def test_a_platform_without_a_table_sets_nothing(world: World) -> None:
    names = world.values(ALONE, {"name": "workstation"})
    assert not any(name.startswith(("NCCL", "FI_")) for name in names)
