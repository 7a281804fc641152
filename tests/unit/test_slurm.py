"""Which states of a job end by themselves, and what is said of those that do not."""

import pytest

from lumicontainer.verify.slurm import JobState, stuck

NEVER = (
    *("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints"),
    *("InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "QOSTimeLimit"),
    *("AssocMaxCpuPerJobLimit", "AssocMaxGRESPerNode", "AssocMaxWallDurationPerJobLimit"),
    *("QOSMaxNodePerJobLimit", "QOSMaxWallDurationPerJobLimit", "QOSMinCpuNotSatisfied"),
    *("DependencyNeverSatisfied", "DeadLine", "ReservationDeleted"),
    *("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"),
    *("launch failed requeued held", "job requeued in held state"),
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
def test_a_reason_that_lasts_until_somebody_changes_something_is_no_reason_to_wait(
    reason: str,
) -> None:
    state = JobState("PENDING", reason)
    assert state.never_starts
    problem = stuck("7", state).problems[0]
    assert reason in problem.what
    assert problem.hint


@pytest.mark.parametrize("reason", ENDS)
def test_a_reason_that_ends_by_itself_is_waited_for(reason: str) -> None:
    assert not JobState("PENDING", reason).never_starts


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"])
def test_a_job_that_was_put_back_and_held_never_starts(state: str) -> None:
    assert JobState(state).never_starts


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", ""])
def test_a_job_that_does_not_wait_is_never_given_up_for_its_reason(state: str) -> None:
    assert not JobState(state, "JobHeldUser").never_starts
