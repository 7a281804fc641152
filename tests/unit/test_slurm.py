"""Which states of a job end by themselves, and what is said of those that do not."""

import pytest

from lumicontainer.jobs.slurm import JobState, refused, stuck, time_limit

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
    ("text", "asked"),
    [("2h", "120"), ("90m", "90"), ("1d12h", "2160"), ("1h30min", "90"), ("1-0:30:00",) * 2],
)
def test_a_time_limit_is_read_as_people_write_it(text: str, asked: str) -> None:
    assert time_limit(text) == asked


@pytest.mark.parametrize("text", ["", "0h", "2:00", "90", "2 h", "h", "-1h", "2h --wrap=id"])
def test_a_time_limit_that_slurm_could_read_as_another_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as 2h"):
        time_limit(text)
