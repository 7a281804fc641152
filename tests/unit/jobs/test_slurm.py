"""States of jobs: final ones, messages about the others, and the questions for Slurm."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.errors import JobError
from lumicontainer.jobs import slurm
from lumicontainer.jobs.slurm import GONE, UNKNOWN, JobState, refused, stuck, time_limit
from lumicontainer.system import budget
from lumicontainer.system.budget import Helper

Program = Callable[[str, str], None]

NEVER = (
    *("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints"),
    *("InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "QOSTimeLimit"),
    *("AssocMaxCpuPerJobLimit", "AssocMaxGRESPerNode", "AssocMaxWallDurationPerJobLimit"),
    *("QOSMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit", "QOSMinCpuNotSatisfied"),
    *("DependencyNeverSatisfied", "DeadLine", "ReservationDeleted"),
    *("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"),
    *("launch failed requeued held", "job requeued in held state"),
    "Job's account not permitted to use this partition (closed allows one not other)",
)
ENDS = (
    *("", "Resources", "Priority", "BeginTime", "Dependency", "Licenses", "Cleaning", "Prolog"),
    *("ReqNodeNotAvail, Reserved for maintenance", "ReqNodeNotAvail, UnavailableNodes:nid005002"),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    *("Reservation", "PartitionDown", "PartitionInactive", "NodeDown"),
    *("AssocMaxJobsLimit", "AssocGrpBillingMinutes", "AssocGrpNodeLimit"),
    *("QOSMaxJobsPerUserLimit", "QOSMaxCpuPerUserLimit", "QOSGrpCpuLimit", "MaxCpuPerAccount"),
)


@pytest.mark.parametrize("reason", NEVER)
def test_a_reason_that_lasts_is_not_waited_for(reason: str) -> None:
    state = JobState("PENDING", reason)
    assert state.never_starts
    problem = stuck("7", state).problems[0]
    assert reason in problem.what
    assert problem.hint


def test_an_account_that_sbatch_refuses_gets_its_own_hint() -> None:
    why = "allocation failure: Invalid account or account/partition combination specified"
    assert "--account PROJECT" in refused(why).problems[0].hint
    assert "sinfo" in refused("Invalid partition name specified").problems[0].hint


@pytest.mark.parametrize(
    "why",
    [
        "sbatch: fatal: Could not establish a configuration source",
        "allocation failure: Unable to contact slurm controller (connect failure)",
    ],
)
def test_a_slurm_that_cannot_be_reached_refuses_no_job(why: str) -> None:
    (problem,) = refused(why).problems
    assert (problem.what, problem.why) == ("cannot reach Slurm", why)
    assert "scontrol ping" in problem.hint


@pytest.mark.parametrize("reason", ENDS)
def test_a_reason_that_ends_by_itself_is_waited_for(reason: str) -> None:
    assert not JobState("PENDING", reason).never_starts


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"])
def test_a_job_that_was_put_back_and_held_never_starts(state: str) -> None:
    assert JobState(state).never_starts


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", ""])
def test_a_job_that_does_not_wait_is_never_given_up_for_its_reason(state: str) -> None:
    assert not JobState(state, "JobHeldUser").never_starts


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2h", "120"), ("90m", "90"), ("1d12h", "2160"), ("1h30min", "90"), ("1-0:30:00",) * 2],
)
def test_a_time_limit_is_read_as_people_write_it(text: str, expected: str) -> None:
    assert time_limit(text) == expected


@pytest.mark.parametrize("text", ["", "0h", "2:00", "90", "2 h", "h", "-1h", "2h --wrap=id"])
def test_a_time_limit_that_slurm_could_read_as_another_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as 2h"):
        time_limit(text)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Put a program of Slurm on PATH, which is a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "over"),
    [
        *((state, False) for state in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED")),
        *((state, True) for state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")),
    ],
)
def test_a_job_that_the_queue_does_not_show_may_still_run(
    program: Program, state: str, over: bool
) -> None:
    program("squeue", "exit 0")
    program("scontrol", f"echo JobId=7 JobState={state} Reason=None")
    assert slurm.look("7") == (GONE if over else JobState(state))


@pytest.mark.slow
def test_a_job_that_slurm_has_forgotten_is_over(program: Program) -> None:
    program("squeue", "exit 0")
    program("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert slurm.look("7") == GONE
    assert "no longer knows it" in slurm.last_state("7")


@pytest.mark.slow
@pytest.mark.parametrize("states", [("FAILED", "COMPLETED"), ("COMPLETED", "FAILED")])
def test_an_array_fails_if_one_of_its_jobs_does(program: Program, states: tuple[str, str]) -> None:
    lines = [f"echo JobId={n} JobState={state} Reason=None" for n, state in enumerate(states, 7)]
    program("scontrol", "\n".join(lines))
    assert slurm.last_state("7") == "FAILED"
    with pytest.raises(JobError, match="job 7 failed"):
        slurm.require_success("7")


SHOWN = """\
JobId=9 ArrayJobId=7 ArrayTaskId=3 JobName=x JobState=COMPLETED
   UserId=me(1000) GroupId=me(1000) MCS_label=N/A
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   NodeList=nid005001
   Command=(null)
   WorkDir=/scratch/a folder JobState=COMPLETED
   StdErr=/scratch/a folder/slurm-9.out
   StdIn=/dev/null
   StdOut=/scratch/a folder/slurm-9.out
   Comment=a comment{blank}
   Power=
""".format(blank=" ")


@pytest.mark.slow
def test_texts_of_users_are_whole_and_add_no_fields_to_a_job(program: Program) -> None:
    program("scontrol", f"cat <<'END'\n{SHOWN}\nEND")
    (fields,) = slurm.job_records("9")
    assert fields["StdOut"] == "/scratch/a folder/slurm-9.out"
    assert fields["WorkDir"] == "/scratch/a folder JobState=COMPLETED"
    assert fields["Comment"] == "a comment"
    names = ("JobId", "ArrayTaskId", "JobState", "NodeList")
    assert [fields[name] for name in names] == ["9", "3", "FAILED", "nid005001"]


HANGS, NEVER_ENDS = "exec tail -f /dev/null", "exec yes RUNNING"
FAILS = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
GARBAGE = r"head -c 1000 /dev/zero; printf '\033[2J<html>503\n'"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the programs of Slurm to little time and output; what they print here is less or more.

    A program that is slow to start is ended too, and has then not answered.
    """
    monkeypatch.setattr(budget, "SLURM", Helper(0.5, 1 << 16, "wait"))


@pytest.mark.slow
def test_a_job_is_over_if_a_queue_with_a_banner_does_not_show_it(program: Program) -> None:
    program("squeue", "echo 'Welcome: maintenance on Monday'")
    program("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert slurm.look("7") == GONE


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("scontrol", [HANGS, NEVER_ENDS, FAILS, GARBAGE, "exit 3", "exit 0"])
def test_a_job_has_not_ended_until_a_program_of_slurm_confirms_it(
    program: Program, scontrol: str
) -> None:
    program("squeue", "exit 0")
    program("scontrol", scontrol)
    assert slurm.look("7") == UNKNOWN
    assert slurm.last_state("7") == "it ended, and Slurm does not say how"


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("squeue", [HANGS, NEVER_ENDS, FAILS, GARBAGE, "exit 3", "kill -9 $$"])
def test_a_queue_that_does_not_answer_proves_nothing(program: Program, squeue: str) -> None:
    program("squeue", squeue)
    assert slurm.look("7") == UNKNOWN
    assert not slurm.is_queued("x") or squeue == GARBAGE


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("sinfo", [HANGS, NEVER_ENDS, GARBAGE])
def test_a_job_is_not_refused_because_sinfo_does_not_answer(program: Program, sinfo: str) -> None:
    program("sbatch", "echo 'Requested nodes are busy' >&2; exit 1")
    program("sinfo", sinfo)
    slurm.check(["job.sh"], "standard-g")


@pytest.mark.slow
@pytest.mark.parametrize("printed", ["7", "7;lumi", "You have 12 hours left.\n7", "7\nwelcome 8"])
def test_the_number_of_a_job_is_found_in_what_a_site_prints(program: Program, printed: str) -> None:
    program("sbatch", f"echo '{printed}'")
    assert slurm.submit(["job.sh"]) == "7"


@pytest.mark.slow
@pytest.mark.parametrize("printed", ["", "welcome", "Submitted batch job 7", "--all"])
def test_a_job_without_a_number_is_reported(program: Program, printed: str) -> None:
    program("sbatch", f"echo '{printed}'")
    with pytest.raises(JobError, match=f"(?s)printed no job number.*{printed}"):
        slurm.submit(["job.sh"])


@pytest.mark.slow
def test_nodes_that_do_not_answer_are_known_by_their_mark(program: Program) -> None:
    program("squeue", "echo 'nid[005001-005003]'")
    program("sinfo", r"printf 'nid005001 allocated*\nnid005002 mixed\nnid005003 down*\n'")
    assert slurm.silent_nodes("7") == ["nid005001", "nid005003"]
    program("sinfo", "exit 1")
    assert slurm.silent_nodes("7") == []


ASKING: dict[str, Callable[[], object]] = {
    "sbatch": lambda: slurm.submit(["job.sh"]),
    "squeue": lambda: slurm.look("7"),
    "scancel": lambda: slurm.cancel(["7"]),
    "scontrol": lambda: slurm.last_state("7"),
}


@pytest.fixture(params=ASKING)
def variables(
    request: pytest.FixtureRequest, program: Program, tmp_path: Path
) -> Callable[[], dict[str, str]]:
    """Return the variables that a program of Slurm gets; the others fail."""
    for name in ASKING:
        program(name, "exit 1")
    program(request.param, f"env >{tmp_path}/seen; echo 7")

    def ask() -> dict[str, str]:
        ASKING[request.param]()
        lines = (tmp_path / "seen").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("S"))

    return ask


@pytest.mark.slow
def test_a_user_s_defaults_hide_no_job_and_change_no_request(
    variables: Callable[[], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"SQUEUE_STATES", "SQUEUE_FORMAT2", "SCANCEL_STATE", "SINFO_SORT", "SCONTROL_LOCAL"}
    names |= {"SBATCH_ARRAY_INX", "SBATCH_WAIT", "SBATCH_ERROR"}
    for name in names:
        monkeypatch.setenv(name, "1")
    assert names.isdisjoint(variables())


@pytest.mark.slow
def test_a_user_s_defaults_of_what_a_job_asks_for_stay(
    variables: Callable[[], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"SBATCH_ACCOUNT": "a", "SBATCH_WAIT_ALL_NODES": "1", "SLURM_CONF": "b"}
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    assert kept.items() <= variables().items()


@pytest.mark.slow
def test_all_requests_go_to_the_cluster_of_the_job(
    variables: Callable[[], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "first")
    assert variables()["SLURM_CLUSTERS"] == "first"
    monkeypatch.setenv("SBATCH_CLUSTERS", "second")
    assert variables()["SLURM_CLUSTERS"] == "second"
