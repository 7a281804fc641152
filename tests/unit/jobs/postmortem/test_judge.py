"""One cause is named: the first death, and not the loudest."""

from pathlib import Path

import pytest
import yaml

from lumicontainer.jobs.postmortem.verdict import NONE, UNKNOWN

from .leftovers import CLOSED, TIMED_OUT, call, cause, ranks, record, traceback, write

SPACE = "OSError: [Errno 28] No space left on device"
RINGS = "nid1:81:99 [0] NCCL INFO Connected all rings comm 0x55"


def test_a_rank_that_failed_by_itself_comes_before_all_that_lost_it(tmp_path: Path) -> None:
    write(tmp_path, ranks(CLOSED, CLOSED, SPACE, CLOSED), {"7.0-rank2.err": 9})
    verdict = cause(tmp_path)
    assert (verdict.signature, list(verdict.ranks)) == ("no-space", [2])
    assert verdict.place == "/users/me/train.py:7"
    assert verdict.log.endswith("7.0-rank2.err:6")
    assert verdict.then == "ranks 0-1, 3 lost a connection"


def test_of_two_that_failed_the_first_counts(tmp_path: Path) -> None:
    write(tmp_path, ranks("KeyError: 'a'", SPACE, CLOSED), {"7.0-rank0.err": 5, "7.0-rank2.err": 6})
    assert list(cause(tmp_path).ranks) == [1]


def test_a_failure_of_most_ranks_is_named_for_all(tmp_path: Path) -> None:
    error = "ModuleNotFoundError: No module named 'apex'"
    assert list(cause(write(tmp_path, ranks(error, error, error))).ranks) == [0, 1, 2]


def test_an_exception_that_no_signature_knows_is_named_with_its_line(tmp_path: Path) -> None:
    verdict = cause(write(tmp_path, ranks(CLOSED, "ValueError: expected 8 columns, got 7")))
    assert (verdict.signature, list(verdict.ranks)) == ("exception", [1])
    assert verdict.evidence == ["ValueError: expected 8 columns, got 7"]


def test_the_first_of_chained_exceptions_says_why(tmp_path: Path) -> None:
    chain = f"{traceback(SPACE)}\nDuring handling of the above exception, another one:\n\n"
    write(tmp_path, {"7.0-rank0.err": chain + traceback("RuntimeError: not saved")})
    assert cause(tmp_path).signature == "no-space"


def test_srun_says_which_rank_died_without_a_message(tmp_path: Path) -> None:
    said = "srun: error: nid5: task 1: Killed\nsrun: error: nid4: task 0: Exited with exit code 1\n"
    write(tmp_path, {**ranks(CLOSED, "", CLOSED), "slurm-7.out": said})
    verdict = cause(tmp_path)
    assert (verdict.signature, list(verdict.ranks)) == ("task-killed", [1])
    assert list(verdict.nodes) == ["nid5"]


def test_a_control_group_that_killed_is_the_cause_of_the_kill(tmp_path: Path) -> None:
    said = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n"
    said += "srun: error: nid5: task 1: Out Of Memory\n"
    verdict = cause(write(tmp_path, {**ranks(CLOSED, "", CLOSED), "slurm-7.out": said}))
    assert "memory" in verdict.cause


def test_a_rank_whose_child_a_control_group_killed_says_so(tmp_path: Path) -> None:
    error = "RuntimeError: DataLoader worker (pid 81) is killed by signal: Killed."
    said = "srun: error: nid5: task 1: Out Of Memory\n"
    verdict = cause(write(tmp_path, {**ranks(CLOSED, error), "slurm-7.out": said}))
    assert (verdict.signature, list(verdict.ranks)) == ("worker-killed", [1])
    assert verdict.evidence == [error, said.strip()]


def test_ranks_that_end_at_one_line_are_named_together(tmp_path: Path) -> None:
    error = "ImportError: cannot import name 'fused' from 'optimizers'"
    times = {"7.0-rank3.err": 5.0}
    verdict = cause(write(tmp_path, ranks(CLOSED, CLOSED, error, error, CLOSED), times))
    assert (verdict.signature, list(verdict.ranks)) == ("import", [2, 3])


def test_tasks_of_srun_that_are_launchers_are_not_taken_for_ranks(tmp_path: Path) -> None:
    nodes = {"7.0-node-nid5.ranks": "0,1\n", "7.0-node-nid6.ranks": "2,3\n"}
    said = "srun: error: nid6: task 1: Out Of Memory\n"
    write(tmp_path, {**ranks(CLOSED, CLOSED, "", ""), **nodes, "slurm-7.out": said})
    verdict = cause(tmp_path)
    assert verdict.signature == "slurm-task-out-of-memory"
    assert (list(verdict.ranks), list(verdict.nodes)) == ([2, 3], ["nid6"])


def test_torchrun_says_which_rank_died_first(tmp_path: Path) -> None:
    rows = [
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : now",
        "  host      : nid5",
    ]
    rows += ["  rank      : 1 (local_rank: 1)", "  exitcode  : -9 (pid: 4121)"]
    write(tmp_path, {**ranks(CLOSED, "", CLOSED), "slurm-7.out": "\n".join(rows)})
    verdict = cause(tmp_path)
    assert (verdict.signature, list(verdict.ranks)) == ("torchrun", [1])


@pytest.mark.parametrize(("error", "rule"), [(CLOSED, "silent-death"), (TIMED_OUT, "silent-hang")])
def test_a_rank_that_says_nothing_died_or_hangs(tmp_path: Path, error: str, rule: str) -> None:
    verdict = cause(write(tmp_path, ranks(error, error, "", error)))
    assert (verdict.signature, list(verdict.ranks)) == (rule, [2])


@pytest.mark.parametrize(
    ("seconds", "rule"), [(1.0, "silent-hang"), (60.0, "silent-death")], ids=["with", "long after"]
)
def test_a_connection_that_ends_with_a_time_out_proves_no_death(
    tmp_path: Path, seconds: float, rule: str
) -> None:
    texts = ranks(TIMED_OUT, CLOSED, "", CLOSED)
    verdict = cause(write(tmp_path, texts, {"7.0-rank0.err": seconds}))
    assert (verdict.signature, list(verdict.ranks)) == (rule, [2])


def test_a_rank_that_comes_after_all_have_waited_is_late(tmp_path: Path) -> None:
    write(tmp_path, ranks(TIMED_OUT, TIMED_OUT, CLOSED), {"7.0-rank2.err": 8})
    assert list(cause(tmp_path).ranks) == [2]


def test_the_flight_recorder_names_who_skipped_a_collective(tmp_path: Path) -> None:
    usual = [call(1, line=7), call(2, size=9, line=9), call(3, line=7)]
    record(tmp_path, usual, usual, [*usual[:2], call(3, size=9, line=9)])
    write(tmp_path, ranks(TIMED_OUT, TIMED_OUT, CLOSED))
    verdict = cause(tmp_path)
    assert (list(verdict.ranks), verdict.place) == ([2], "/users/me/train.py:9")


def test_a_rank_that_waits_for_one_other_is_named(tmp_path: Path) -> None:
    alone = call(1, "recv", is_p2p=True, p2p_seq_id=1, line=33)
    record(tmp_path, [call(1), alone], [call(1), call(2)], [call(1), call(2)])
    write(tmp_path, ranks(TIMED_OUT, CLOSED, CLOSED))
    verdict = cause(tmp_path)
    assert (list(verdict.ranks), verdict.place) == ([0], "/users/me/train.py:33")


def test_a_rank_that_never_started_has_no_log(tmp_path: Path) -> None:
    error = "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients."
    write(tmp_path, ranks(f"{error} 2/3 clients joined.", "DistStoreError: wait timeout after 9ms"))
    assert list(cause(tmp_path).ranks) == [2]


def test_a_rank_that_others_wait_for_in_the_store_is_named(tmp_path: Path) -> None:
    error = "torch.distributed.DistStoreError: wait timeout after 9ms, keys: /default_pg/0//cpu//0"
    verdict = cause(write(tmp_path, ranks(*[f"{error}/3"] * 4)))
    assert (verdict.signature, list(verdict.ranks)) == ("absent-in-store", [3])
    assert verdict.then == "ranks 0-2 waited in vain"


def test_a_rank_with_another_address_is_named(tmp_path: Path) -> None:
    names = "[c10d] The IPv6 network addresses of (nid9, 29500) cannot be retrieved (gai error)\n"
    error = "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients."
    logs = ranks(f"{error} 2/3 clients joined.", "", "DistStoreError: wait timeout after 9ms")
    verdict = cause(write(tmp_path, {**logs, "7.0-rank1.err": names}))
    assert (verdict.signature, list(verdict.ranks)) == ("no-such-host", [1])


@pytest.mark.parametrize("signature", ["unlike-sizes", "unlike-collectives", "missing-clients"])
def test_a_rank_that_only_sees_that_others_differ_is_not_blamed(
    tmp_path: Path, signature: str
) -> None:
    samples = yaml.safe_load((Path(__file__).parent / "reading/samples.yaml").read_text())
    error = f"RuntimeError: {samples[signature].strip()}"
    verdict = cause(write(tmp_path, ranks(error, CLOSED, CLOSED, CLOSED)))
    assert (verdict.signature, list(verdict.ranks)) == (signature, [])


def test_rings_without_trees_are_a_plugin_that_hangs(tmp_path: Path) -> None:
    write(tmp_path, {"7.0-rank0.out": RINGS, "7.0-rank1.out": RINGS})
    verdict = cause(tmp_path, state="TIMEOUT")
    assert verdict.signature == "rings-without-trees"
    assert "NCCL_NET_GDR_LEVEL with ROCm 7; from 64 ranks on" in verdict.hint


@pytest.mark.parametrize("state", ["COMPLETED", ""])
def test_a_traceback_after_which_a_rank_went_on_is_no_failure(tmp_path: Path, state: str) -> None:
    logs = {**ranks("", SPACE), "7.0-rank1.out": "step 3\n"}
    assert cause(write(tmp_path, logs, {"7.0-rank1.out": 60}), state=state).outcome == NONE


def test_a_traceback_of_a_logger_is_no_failure(tmp_path: Path) -> None:
    text = f"ERROR:root:the cache is off\n{traceback(SPACE)}"
    assert cause(write(tmp_path, {"7.0-rank0.err": text})).outcome == NONE


@pytest.mark.parametrize(
    ("state", "signature"),
    [
        ("NODE_FAIL", "node-failure"),
        ("TIMEOUT", "time-limit"),
        ("OUT_OF_MEMORY", "slurm-out-of-memory"),
        ("CANCELLED", "cancelled"),
    ],
)
def test_slurm_says_why_if_no_log_does(tmp_path: Path, state: str, signature: str) -> None:
    write(tmp_path, {"7.0-rank0.err": "", "7.0-rank1.err": ""})
    assert cause(tmp_path, state=state).signature == signature


def test_a_failed_node_comes_before_the_ranks_that_lost_it(tmp_path: Path) -> None:
    write(tmp_path, {**ranks(CLOSED, ""), "slurm-7.out": "srun: error: Node failure on nid5\n"})
    verdict = cause(tmp_path)
    assert (verdict.signature, list(verdict.nodes)) == ("node-failure", ["nid5"])


def test_the_node_of_a_rank_is_where_lumi_entry_wrote_it(tmp_path: Path) -> None:
    nodes = {"7.0-node-nid5.ranks": "0,1\n", "7.0-node-nid6.ranks": "2,3\n"}
    nodes["slurm-7.out"] = "srun: error: localhost: task 2: Exited with exit code 1\n"
    write(tmp_path, {**ranks(CLOSED, CLOSED, SPACE, CLOSED), **nodes})
    assert list(cause(tmp_path).nodes) == ["nid6"]


def test_logs_that_are_cut_name_the_rank_whose_last_line_is_a_cause(tmp_path: Path) -> None:
    late = "[rank{0}]:[E ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation"
    late += " timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE) ran for 600012 milliseconds\n"
    memory = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 3\n"
    logs = {f"rank{rank}.log": late.format(rank) for rank in (0, 1)}
    write(tmp_path, {**logs, "rank2.log": memory})
    assert (cause(tmp_path).signature, list(cause(tmp_path).ranks)) == ("gpu-memory", [2])


def test_it_says_when_it_does_not_know(tmp_path: Path) -> None:
    assert cause(write(tmp_path, ranks(CLOSED, CLOSED))).outcome == UNKNOWN
    assert cause(tmp_path, state="FAILED").outcome == UNKNOWN


def test_output_without_ranks_says_why_and_srun_which_rank_it_was(tmp_path: Path) -> None:
    said = "srun: error: nid5: task 1: Exited with exit code 1\n"
    text = traceback(CLOSED) + traceback(SPACE, 9) + traceback(CLOSED) + said
    verdict = cause(write(tmp_path, {"slurm-7.out": text}))
    assert (verdict.signature, list(verdict.ranks)) == ("no-space", [1])
    assert (verdict.place, list(verdict.nodes)) == ("/users/me/train.py:9", ["nid5"])


def test_one_program_without_ranks_ends_with_an_exception(tmp_path: Path) -> None:
    verdict = cause(write(tmp_path, {"slurm-7.out": f"step 1\n{traceback('KeyError: 3')}"}))
    assert (verdict.signature, list(verdict.ranks)) == ("exception", [])
    assert verdict.place == "/users/me/train.py:7"


def test_the_traceback_of_a_launcher_is_not_the_cause(tmp_path: Path) -> None:
    text = traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
    assert cause(write(tmp_path, {"slurm-7.out": text})).outcome == UNKNOWN


def test_ranks_without_logs_are_not_blamed_if_most_have_none(tmp_path: Path) -> None:
    record(tmp_path, [call(1)], None, None, None)
    assert list(cause(write(tmp_path, ranks(TIMED_OUT))).ranks) == []
