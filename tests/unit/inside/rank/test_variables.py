"""The platform's variables are set where they fit the image, the node and the run, and say why."""

import shutil

import pytest

from lumicontainer.inside.entry.decide import MARK, without_own
from lumicontainer.inside.environment import USER
from lumicontainer.inside.rank import caches

from .. import seen
from ..conftest import Env
from .conftest import LUMI, World

STEP = seen.srun(0)
ONE_NODE = {**STEP, "SLURM_STEP_NUM_NODES": "1"}
ALONE = {"PATH": "/bin"}
ROW = {"name": "A", "value": "x", "reason": "w", "source": "s"}


@pytest.mark.parametrize(
    ("version", "of_layer", "value", "fact"),
    [
        ("6.1.3", "", "PHB", "ROCm 6.1.3"),
        ("6.0", "", "PHB", "ROCm 6.0"),
        ("6.2.0-66", "", None, "ROCm 6.2.0-66"),
        ("6.4.4-129", "6.0.3", None, "ROCm 6.4.4-129"),
        ("7.0.2", "", None, "ROCm 7.0.2"),
        ("", "6.0.3", "PHB", "ROCm 6.0.3"),
        ("", "", None, "ROCm unknown"),
        ("unknown", "", None, "ROCm: invalid version"),
    ],
)
def test_the_gdr_level_is_set_for_the_rocm_that_needs_it_and_never_for_one_that_may_hang(
    lumi: World, version: str, of_layer: str, value: str | None, fact: str
) -> None:
    lumi.write("opt/rocm/.info/version", version)
    lumi.layers["rocm"] = of_layer
    setting = lumi.settings(STEP)["NCCL_NET_GDR_LEVEL"]
    assert setting.value == value
    assert fact in setting.why


@pytest.mark.parametrize(("version", "value"), [("7.0.2", None), ("7.12.1", None), ("7.13", "1")])
def test_scratch_memory_stays_with_the_rocm_that_is_slow_without_it(
    lumi: World, version: str, value: str | None
) -> None:
    lumi.write("opt/rocm/.info/version", version)
    assert lumi.settings(STEP)["HSA_NO_SCRATCH_RECLAIM"].value == value


def test_without_a_slingshot_device_nothing_of_the_network_is_set(lumi: World) -> None:
    shutil.rmtree(lumi.root / "sys/class/cxi")
    lumi.write("opt/rocm/.info/version", "6.0.3")
    got = lumi.settings(STEP)
    network = ("NCCL_", "FI_", "HSA_")
    assert not [name for name in got if name.startswith(network) and got[name].value]
    assert "no cxi device" in got["NCCL_NET"].why


@pytest.mark.parametrize(
    ("env", "layers", "value"),
    [
        (STEP, {"aws-ofi-nccl": ""}, "OFI"),
        (STEP, {"aws-ofi-rccl": ""}, "AWS Libfabric"),
        (STEP, {}, None),
        (ONE_NODE, {"aws-ofi-nccl": ""}, None),
        (ALONE, {"aws-ofi-nccl": ""}, None),
        ({**seen.mpiexec(0, 4), "MPI_LOCALNRANKS": "2"}, {"aws-ofi-nccl": ""}, "OFI"),
        (seen.mpiexec(0, 2), {"aws-ofi-nccl": ""}, None),
    ],
)
def test_many_nodes_need_the_plugin(lumi: World, env: Env, layers: Env, value: str | None) -> None:
    lumi.layers = layers
    setting = lumi.settings({**env, "MASTER_ADDR": "nid1"})["NCCL_NET"]
    assert setting.value == value
    assert ("no aws-ofi-nccl in the image" in setting.why) == (not layers)


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
def test_all_conditions_of_a_row_must_hold(lumi: World, when: Env, holds: bool) -> None:
    table = {"variables": [{**ROW, "when": when}]}
    assert lumi.settings(STEP, table)["A"].value == ("x" if holds else None)


@pytest.mark.parametrize(("version", "value"), [("6.4", "new"), ("6.1", "old")])
def test_of_several_rows_the_one_that_holds_counts(lumi: World, version: str, value: str) -> None:
    limits = {"old": "<6.2", "new": ">=6.2"}
    rows = [{**ROW, "value": each, "when": {"rocm": limits[each]}} for each in limits]
    lumi.write("opt/rocm/.info/version", version)
    assert lumi.settings(ALONE, {"variables": rows})["A"].value == value


@pytest.mark.parametrize(
    ("network", "rdzv_get_en", "value"),
    [
        ("", "1", None),
        ("", "0", None),
        ("single_node_vni,disable_rdzv_get", "0", "alt_read"),
        ("job_vni", "0", None),
        ("disable_rdzv_get", "1", None),
        ("disable_rdzv_get", "", "alt_read"),
    ],
)
def test_alt_read_is_used_only_with_srun_s_option_that_frees_the_device_for_it(
    lumi: World, network: str, rdzv_get_en: str, value: str | None
) -> None:
    for number in range(4):
        lumi.write(f"sys/class/cxi/cxi{number}/device/properties/rdzv_get_en", rdzv_get_en)
    env = {**STEP, "SLURM_NETWORK": network}
    assert lumi.settings(env)["FI_CXI_RDZV_PROTO"].value == value
    warned = network == "disable_rdzv_get" and rdzv_get_en == "1"
    assert ["rdzv_get_en=1" in text for text in lumi.decide(env).warnings] == [True] * warned


def test_rccl_meets_on_the_interfaces_that_are_up(lumi: World) -> None:
    assert lumi.settings(ALONE)["NCCL_SOCKET_IFNAME"].value == "hsn0,hsn1,hsn2,hsn3"
    for name, state in (("hsn1", "down"), ("hsn3", "unknown"), ("hsnx", "up")):
        lumi.write(f"sys/class/net/{name}/operstate", state)
    assert lumi.settings(ALONE)["NCCL_SOCKET_IFNAME"].value == "hsn0,hsn2,hsn3"
    for number in range(4):
        lumi.write(f"sys/class/net/hsn{number}/operstate", "down")
    setting = lumi.settings(ALONE)["NCCL_SOCKET_IFNAME"]
    assert setting.value is None
    assert "no interface hsn* is up" in setting.why


OLD = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
NEW = ("TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE")


def recorder(lumi: World, env: Env, log_dir: str = "") -> dict[str, str]:
    """Return what a program gets of the variables of PyTorch's flight recorder."""
    changes = lumi.decide(env, log_dir=log_dir).changes()
    return {name: changes[name] for name in (*OLD, *NEW) if name in changes}


@pytest.mark.parametrize(("version", "names"), [("2.7.1", OLD), ("2.8.0", NEW), ("2.10.0", NEW)])
def test_the_flight_recorder_is_on_by_the_names_of_its_pytorch(
    lumi: World, monkeypatch: pytest.MonkeyPatch, version: str, names: tuple[str, str]
) -> None:
    lumi.layers["pytorch"] = version
    monkeypatch.chdir(lumi.root)
    prefix = f"{lumi.root}/logs/1.0-flight-recorder-rank"
    assert recorder(lumi, STEP, "logs") == {names[0]: "2000", names[1]: prefix}
    assert lumi.settings(STEP)["TORCH_NCCL_DUMP_ON_TIMEOUT"].value == "1"


def test_logs_in_a_folder_that_is_gone_have_no_recorder(
    lumi: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    gone = lumi.root / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert recorder(lumi, STEP, "logs") == {NEW[0]: "2000"}
    assert recorder(lumi, STEP, "/logs")[NEW[1]] == "/logs/1.0-flight-recorder-rank"


@pytest.mark.parametrize(
    ("env", "version"),
    [
        pytest.param(STEP, "", id="an unknown PyTorch"),
        pytest.param(ONE_NODE, "2.9.1", id="one node"),
        pytest.param({**STEP, **dict.fromkeys(OLD, "0")}, "2.9.1", id="old names that are set"),
    ],
)
def test_the_flight_recorder_stays_off(lumi: World, env: Env, version: str) -> None:
    lumi.layers["pytorch"] = version
    assert recorder(lumi, env) == {}
    why = lumi.settings(env)[NEW[0]].why
    assert (why == f"{OLD[0]} is set instead") == (OLD[0] in env)


def test_without_scratch_the_place_is_left_to_pytorch(lumi: World) -> None:
    lumi.layers["pytorch"] = "2.9.1"
    assert recorder(lumi, STEP) == {NEW[0]: "2000"}


RECORDER = "scratch/project_465000001/me/flight-recorder"


@pytest.fixture
def of_project(lumi: World) -> dict[str, str]:
    """Give the job a project's folder on /scratch; return its environment."""
    lumi.layers["pytorch"] = "2.9.1"
    (lumi.root / "scratch/project_465000001").mkdir(parents=True)
    return {**STEP, "SLURM_JOB_ACCOUNT": "project_465000001", "USER": "me"}


def test_without_a_log_folder_it_writes_to_a_private_one(lumi: World, of_project: Env) -> None:
    folder = lumi.root / RECORDER
    assert recorder(lumi, of_project)[NEW[1]] == f"{folder}/1.0-flight-recorder-rank"
    decision = lumi.decide(of_project)
    caches.make_recorder(decision.context)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert decision.context.notes == []


def test_a_recorder_s_folder_open_to_others_is_reported(lumi: World, of_project: Env) -> None:
    folder = lumi.root / RECORDER
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    first = lumi.decide(of_project).context
    second = lumi.decide({**of_project, "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}).context
    for context in (first, second):
        caches.make_recorder(context)
    (note,) = first.notes
    assert note.startswith(f"warning: PyTorch's flight recorder cannot write to {folder}: ")
    assert second.notes == []


@pytest.mark.parametrize("value", ["SYS", ""])
def test_what_the_user_set_stays_even_if_it_is_empty(lumi: World, value: str) -> None:
    env = {**STEP, "NCCL_NET": value}
    setting = lumi.settings(env)["NCCL_NET"]
    assert (setting.value, setting.origin) == (value, USER)
    assert "NCCL_NET" not in lumi.decide(env).changes()


def test_each_says_why_and_from_where_it_is_known(lumi: World) -> None:
    rows = lumi.settings(STEP)
    assert rows["NCCL_NET"].origin == "platform lumi-g"
    assert "nodes 2" in rows["NCCL_NET"].why
    for name in {row["name"] for row in LUMI["variables"]}:
        setting = rows[name]
        sources = [row["source"] for row in LUMI["variables"] if row["name"] == name]
        said = any(source in setting.why for source in sources)
        assert said if setting.value else "left unset: " in setting.why


def test_an_inner_lumi_entry_does_not_take_a_value_of_two_words_for_the_user_s(lumi: World) -> None:
    lumi.layers = {"aws-ofi-rccl": "1.4.0"}
    changes = lumi.decide(STEP).changes()
    assert changes["NCCL_NET"] == "AWS Libfabric"
    assert MARK in changes
    assert without_own({**STEP, **changes}) == STEP
