"""A bad node stops within seconds and reports all that is wrong with it; nothing counts unseen."""

import _ctypes
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lumicontainer.inside.entry import main, preflight
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.node.addresses import address_of
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank import context as rank_context
from lumicontainer.inside.rank.context import Context, Options

from .. import lumi_node, seen
from ..conftest import PATH, Entry, Env, lay_out, run
from ..lumi_node import BUSES

pytestmark = pytest.mark.slow

LIBRARY = Path(_ctypes.__file__)
"""One that loads."""
GIB = 1 << 20  # in KiB, as /proc/meminfo counts
GPUS = [{"pci": pci} for pci in ("0000:c1:00.0", "0000:c6:00.0", "0000:c9:00.0")]
LAYERS = {"rocm": "6.4.4", "aws-ofi-nccl": "1.20.0"}
PLATFORM = {"name": "lumi-g", "gpus": GPUS, "interface_prefix": "hsn", "layers": LAYERS}


def node(root: Path, hidden: Sequence[str] = (), missing: int = 0) -> Path:
    """Write a node with three GPUs and two interfaces."""
    buses = BUSES[: 3 - missing]
    lumi_node.write(root, buses=buses, hidden=hidden, nics={"hsn0": "c5", "hsn1": "cd"})
    for folder in ("tmp", "proc"):
        (root / folder).mkdir()
    (root / "dev/kfd").touch()
    (root / "tmp").chmod(0o1777)
    memory(root, available=490)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return node(tmp_path)


@pytest.fixture(autouse=True)
def _addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each interface an address: this machine has none of their names."""
    monkeypatch.setattr(preflight, "address_of", lambda _: "127.0.0.1")


def memory(root: Path, available: int) -> None:
    text = f"MemTotal: {512 * GIB} kB\nMemFree: 1 kB\nMemAvailable: {available * GIB} kB\n"
    (root / "proc/meminfo").write_text(text)


def at(seconds: int) -> str:
    """Return the time in so many seconds, as Slurm writes it."""
    return str(int(time.time()) + seconds)


def context(root: Path, env: Mapping[str, str] | None = None) -> Context:
    env = {**seen.srun(3), "SLURM_JOB_START_TIME": at(0), **(env or {})}
    options = Options(preflight=True)
    return Context(env, node=Node(str(root)), platform=PLATFORM, options=options)


def failure(checked: Context) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        preflight.check(checked)
    return caught.value


def test_only_rank_0_reports_a_good_node(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env = {"NCCL_NET_PLUGIN": str(LIBRARY), "SLURM_JOB_END_TIME": at(3600)}
    preflight.check(context(root, env))
    assert capfd.readouterr().err == ""
    preflight.check(context(root, {**env, **seen.srun(0)}))
    printed, host = capfd.readouterr().err, os.uname().nodename
    assert printed.startswith(f"preflight of {host}: passed: GPUs (all 3), network (2")
    assert "not checked" not in printed


def test_all_that_is_wrong_is_reported_at_once_with_the_node_s_name(root: Path) -> None:
    memory(root, available=20)
    (root / "sys/class/kfd/kfd/topology/nodes/6/properties").write_text("simd_count 0\n")
    (root / "sys/class/net/hsn0/operstate").write_text("down\n")
    late = {"SLURM_JOB_START_TIME": at(3600), "SLURM_MEM_PER_NODE": "491520"}
    error = failure(context(root, late))
    host = os.uname().nodename
    assert (error.code, error.shown) == (3, True)
    assert error.what == f"node {host} is not fit: 5 of 7 checks failed"
    assert "GPUs: 2 of 3 are present; missing: GCD 2 (0000:c9:00.0)" in error.why
    assert "network: of 2 hsn*, these are down: hsn0" in error.why
    assert "plugin: librccl-net.so does not load: librccl-net.so: cannot open" in error.why
    assert "memory: 20.0 GiB of 512.0 are available, less than 432.0" in error.why
    assert " s before the job's start on Slurm's controller" in error.why
    assert f"sbatch --exclude={host}" in error.hint


def test_the_name_service_is_asked_for_the_address_of_an_interface_that_is_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "SLOW", preflight.SECONDS)
    addresses = {"hsn0": "", "hsn1": "127.0.0.1"}
    monkeypatch.setattr(preflight, "address_of", addresses.__getitem__)
    rank = context(root)
    assert re.fullmatch(r"127\.0\.0\.1 in \d+\.\d\d s", preflight.names(rank))
    assert rank.notes == []
    (root / "sys/class/net/hsn1/operstate").write_text("down\n")
    with pytest.raises(preflight.UnmadeError):
        preflight.names(context(root))


def test_a_name_service_that_fails_is_timed_all_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose server never answers fails after its time limit (EAI_AGAIN)."""
    monkeypatch.setattr(preflight, "address_of", lambda _: "no address")
    assert re.fullmatch(r"no address in \d+\.\d\d s", preflight.names(context(root)))


def test_a_silent_name_service_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "address_of", lambda _: "127.0.0.1")
    monkeypatch.setattr(preflight, "_LOOK_UP", "import time; time.sleep(60)")
    monkeypatch.setattr(preflight, "SECONDS", 0.5)
    with pytest.raises(preflight.FailedError, match="does not answer for 127"):
        preflight.names(context(root))


def test_the_address_of_an_interface_is_the_kernel_s() -> None:
    assert (address_of("lo"), address_of("nosuch0")) == ("127.0.0.1", "")


def test_gpus_that_slurm_hides_are_not_missing(tmp_path: Path) -> None:
    whole = context(node(tmp_path / "whole", hidden=("c1", "c9")))
    assert preflight.gpus(whole) == "all 3, 2 hidden from this task"
    with pytest.raises(preflight.FailedError, match="2 of 3 are present, 1 of them hidden"):
        preflight.gpus(context(node(tmp_path / "broken", hidden=("c1",), missing=1)))


def test_gpus_that_cannot_be_opened_are_reported(root: Path) -> None:
    (root / "dev/kfd").unlink()
    assert "cannot be opened" in failure(context(root)).why


def test_a_plugin_that_kills_what_loads_it_is_reported(root: Path) -> None:
    # What lies behind the end of the file is mapped, and touching it is SIGBUS.
    plugin = root / "librccl-net.so"
    plugin.write_bytes(LIBRARY.read_bytes()[:8192])
    error = failure(context(root, {"NCCL_NET_PLUGIN": str(plugin)}))
    assert f"{plugin} does not load: it ends the process with signal 7" in error.why


def test_a_plugin_that_hangs_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "SECONDS", 0.5)
    plugin = root / "librccl-net.so"
    os.mkfifo(plugin)  # to open it waits for a writer
    error = failure(context(root, {"NCCL_NET_PLUGIN": str(plugin)}))
    assert f"{plugin} does not load: it did not finish within 0.5 s" in error.why


def test_an_image_without_a_plugin_condemns_no_node(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rank = context(root, seen.srun(0))
    rank.platform = {**PLATFORM, "layers": {"rocm": "6.4.4"}}
    preflight.check(rank)
    assert "; not checked: plugin (the image has no network plugin)\n" in capfd.readouterr().err


def test_a_user_s_own_plugin_is_loaded_in_an_image_without_one(root: Path) -> None:
    rank = context(root, {"NCCL_NET_PLUGIN": "ofi"})
    rank.platform = {**PLATFORM, "layers": {}}
    assert "librccl-net-ofi.so does not load" in failure(rank).why


def test_a_plugin_is_named_as_rccl_names_it(root: Path) -> None:
    error = failure(context(root, {"NCCL_NET_PLUGIN": "ofi"}))
    assert "librccl-net-ofi.so does not load" in error.why


@pytest.mark.parametrize(
    ("env", "enough", "too_little"),
    [
        ({"SLURM_MEM_PER_NODE": "491520"}, 440, 430),
        ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "56"}, 60, 40),
        ({"SLURM_MEM_PER_NODE": "0"}, 60, 40),
        ({}, 60, 40),
    ],
)
def test_granted_memory_has_to_be_there(root: Path, env: Env, enough: int, too_little: int) -> None:
    memory(root, enough)
    assert preflight.memory(context(root, env)).startswith(f"{enough} of 512 GiB")
    memory(root, too_little)
    with pytest.raises(preflight.FailedError, match=f"^{too_little}"):
        preflight.memory(context(root, env))


@pytest.mark.parametrize(
    ("folder", "kind", "holds"),
    [("tmp", "tmpfs", True), ("dev/shm", "tmpfs", True), ("tmp", "ext4", False)],
)
def test_memory_that_files_of_the_user_occupy_is_not_missing(
    root: Path, folder: str, kind: str, holds: bool
) -> None:
    where = root / folder
    (where / "data/set").mkdir(parents=True)
    (where / "data/set/part").write_bytes(os.urandom(2 << 20))
    (root / "proc/self").mkdir()
    (root / "proc/self/mountinfo").write_text(f"2 1 0:9 / {where} rw - {kind} tmpfs rw\n")
    rows = {"MemTotal": 16, "MemAvailable": 8}
    text = "".join(f"{name}: {mib << 10} kB\n" for name, mib in rows.items())
    (root / "proc/meminfo").write_text(text)
    rank = context(root, {"SLURM_MEM_PER_NODE": "10"})
    if holds:
        assert preflight.memory(rank).endswith(f"; your files in {where} occupy 0.0 GiB")
    else:
        with pytest.raises(preflight.FailedError, match="are available, less than"):
            preflight.memory(rank)


@pytest.mark.parametrize(
    ("moment", "seconds", "reason"),
    [("START", 100, "before the job's start"), ("END", -100, "after the job's end")],
)
def test_a_wrong_clock_is_reported(root: Path, moment: str, seconds: int, reason: str) -> None:
    env = {f"SLURM_JOB_{moment}_TIME": at(seconds)}
    with pytest.raises(preflight.FailedError, match=rf"(9\d|1\d\d) s {reason}"):
        preflight.clock(context(root, env))


def test_without_a_job_the_clock_is_not_checked(root: Path) -> None:
    with pytest.raises(preflight.UnmadeError, match="the job's start is unknown"):
        preflight.clock(context(root, {"SLURM_JOB_START_TIME": ""}))


IGNORING = ("bash", "-c", 'trap "" CHLD; exec "$@"', "bash")
SHOW = ("grep", "SigIgn", "/proc/self/status")


def test_a_plugin_that_does_not_load_is_noticed_where_sigchld_is_ignored(launcher: Path) -> None:
    done = run(*IGNORING, launcher, "--preflight", "--", *SHOW, env={"NCCL_NET_PLUGIN": "/no.so"})
    assert (done.returncode, done.stdout) == (3, "")
    assert "/no.so does not load: /no.so: cannot open" in done.stderr


def test_after_the_checks_the_program_ignores_what_it_would_without(launcher: Path) -> None:
    env = {"NCCL_NET_PLUGIN": str(LIBRARY)}
    done = run(*IGNORING, launcher, "--preflight", "--", *SHOW, env=env)
    assert done.stdout == run(*IGNORING, *SHOW).stdout


def test_what_cannot_be_checked_here_is_reported_and_passes_for_nothing(entry: Entry) -> None:
    done = entry("--preflight", "--", "echo", "started")
    assert (done.returncode, done.stdout) == (0, "started\n")
    passed, _, unmade = done.stderr.partition("; not checked: ")
    assert "passed: disk (" in passed
    for name in ("GPUs (the platform lists no GPUs)", "network (the", "plugin (the"):
        assert name in unmade


def test_a_bad_node_starts_nothing_and_reports_all_of_it_on_any_rank(tmp_path: Path) -> None:
    row = {"name": "NCCL_NET_PLUGIN", "value": "librccl-nosuch.so", "reason": "", "source": ""}
    place = lay_out(tmp_path / "image", {"variables": [row]})
    done = run(place, "--preflight", "--", "echo", "started", env=seen.srun(3))
    assert (done.returncode, done.stdout) == (3, "")
    assert "    why: plugin: librccl-nosuch.so does not load: librccl-nosuch.so: " in done.stderr
    assert "not checked: GPUs (the platform lists no GPUs)" in done.stderr


@pytest.mark.parametrize(("local", "code"), [(0, 3), (1, 2)])
def test_a_node_with_too_few_gpus_for_its_ranks_is_named_with_what_it_lacks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    local: int,
    code: int,
) -> None:
    here = Node(str(node(tmp_path, missing=1)))
    step = seen.step(0, "nid[005001-005002]", 16, "8(x2)", 2)
    env = {**seen.srun(0), **seen.task(8 + local, local, 1), **step}
    monkeypatch.setattr(rank_context, "Node", lambda: here)
    monkeypatch.setattr(main, "inherited", lambda: env)
    # Its signals would end this process at the next closed pipe.
    monkeypatch.setattr(main, "restore_signals", lambda: None)
    monkeypatch.setattr(main, "record", lambda _: {**PLATFORM, "accelerator": "rocm"})
    assert main.main(["--preflight", "--", "true"]) == code
    printed, host = capfd.readouterr().err, os.uname().nodename
    errors = re.findall("(?m)^error: ([^:(]*)", printed)
    both = ["8 ranks on this node, but they see 2 GPUs ", f"node {host} is not fit"]
    assert errors == ([] if local else both)
    assert ("GPUs: 2 of 3 are present; missing: GCD 2" in printed) == (not local)


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "rocm-smi"
    path.write_text("#!/bin/sh\necho 'GPU 0: 35 C'\nexit 3\n")
    path.chmod(0o755)
    return path


def test_local_rank_0_of_each_node_shows_its_gpus_on_stderr(entry: Entry, tool: Path) -> None:
    path = {"PATH": f"{tool.parent}:{PATH}"}
    words = ("--smi", "--", "echo", "run")
    done = [entry(*words, env={**seen.srun(rank), **path}) for rank in range(4)]
    assert [one.stdout for one in done] == ["run\n"] * 4
    assert [bool(one.stderr) for one in done] == [True, False, False, True]
    assert done[0].stderr.startswith("rocm-smi on ")
    assert done[0].stderr.endswith("exit code 3:\nGPU 0: 35 C\n")


def test_a_tool_that_is_not_there_is_one_warning_of_the_run(entry: Entry) -> None:
    done = [entry("--smi", "--", "true", env=seen.srun(rank)) for rank in range(4)]
    assert [one.returncode for one in done] == [0] * 4
    assert [one.stderr.count("\n") for one in done] == [1, 0, 0, 0]
    assert "neither rocm-smi nor amd-smi" in done[0].stderr


def test_a_tool_that_hangs_is_left(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool.write_text("#!/bin/sh\nsleep 1000\n")
    # The limit as it stands would make this test as long.
    monkeypatch.setattr(preflight, "SECONDS", 0.3)
    begun = time.monotonic()
    assert "did not end within 0.3 s" in preflight._state([str(tool)])
    assert time.monotonic() - begun < 120
