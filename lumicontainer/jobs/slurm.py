"""Ask Slurm about a job: whether it can run, why it waits, how it ended."""

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lumicontainer.errors import HostError, JobError, Problem
from lumicontainer.system import budget, process
from lumicontainer.system.budget import Helper
from lumicontainer.system.terminal.output import clean

ASKS = "SBATCH_ACCOUNT, SBATCH_PARTITION and SBATCH_TIMELIMIT change what the job asks for"
_LISTED = "sinfo --format='%P %D %l' lists each partition with its nodes and its longest time"
_NOT_NOW = re.compile(
    "Requested node configuration is not available|Requested nodes are busy"
    "|Required node not available|Requested partition configuration not available now"
)
"""Errors of sbatch --test-only that may also come from nodes that are down or drained now
(seen with Slurm 22.05: "Requested node configuration is not available")."""
_IN_SERVICE = re.compile(r"up (idle|allocated|mixed|completing|planned|reserved)[^*]?")
"""The output of sinfo for partitions and nodes that accept jobs; * means that a node is silent."""
_SILENT, _DEAD = re.compile(r".+\*"), re.compile(r"(down|fail|error|unknown)\w*\*?|.+\*")
"""The states of nodes that do not answer, and of nodes whose jobs Slurm ended."""
CONTINUED = "until-done:"
"""The start of the comment of a job that another one continues; see ``until_done/end.sh.j2``."""
LOST = "NODE_FAIL"
"""The state of a job whose node failed."""
_TURN, _LONGEST_END = 0.5, 60.0
"""Seconds: between two looks at a job that ends, and until Slurm kills one that does not."""
_PING = "scontrol ping shows if this host reaches Slurm; use a login node of the cluster"
_NEVER = re.compile(
    r"Partition(Config|NodeLimit|TimeLimit)|BadConstraints|Invalid(Account|QOS)"
    r"|(Account|QOS)NotAllowed|(Association|QOS)TimeLimit"
    r"|(Assoc|QOS)Max\w*Per(Job|Node)\w*|QOSMin\w*|AssocMaxWall\w*|QOSMaxWall\w*"
    r"|DependencyNeverSatisfied|DeadLine|ReservationDeleted"
    r"|JobHeld(User|Admin)|JobHoldMaxRequeue|JobLaunchFailure|.*\bheld\b.*"
    r"|.* not permitted to use this partition .*"
)
"""Reasons that last until somebody changes the job or Slurm's configuration
(https://slurm.schedmd.com/job_reason_codes.html). All others can end by themselves: other jobs end
(Resources, Priority, QOSGrp…, AssocGrp…, …PerUser, …PerAccount), a reservation or a maintenance is
over (ReqNodeNotAvail, Reservation), nodes and partitions come back (NodeDown, PartitionDown)."""
_TIME = re.compile(r"(?a)(?:(?P<d>\d{1,3})d)?(?:(?P<h>\d{1,4})h)?(?:(?P<m>\d{1,6})m(?:in)?)?")
_LONG_TIME = re.compile(r"(?a)(?:\d{1,3}-)?\d{1,4}:[0-5]\d:[0-5]\d")
_MINUTES = (("d", 1440), ("h", 60), ("m", 1))
_HELD = ("REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
"""States of jobs that Slurm requeued, and holds."""
_UNFINISHED = re.compile(
    "PENDING|RUNNING|SUSPENDED|CONFIGURING|COMPLETING|REQUEUED|RESIZING|SIGNALING|STAGE_OUT|STOPPED"
    f"|{'|'.join(_HELD)}"
)
"""States of jobs that are not over (https://slurm.schedmd.com/job_state_codes.html)."""
_STATE, _NUMBER = re.compile("[A-Z_]+"), re.compile(r"(?am)^(\d+)(;.*)?$")
_FORGOTTEN = "Invalid job id"
"""The error of programs that are asked for a job that Slurm no longer knows."""
_DEFAULTS = re.compile(r"(SQUEUE|SCANCEL|SINFO|SCONTROL)_.*|SBATCH_(ARRAY_INX|CLUSTERS|ERROR|WAIT)")
"""Variables with a user's defaults that hide a job from us, or make it another kind of job."""
_AWAY = re.compile("configuration source|Unable to contact slurm|timed out|Zero Bytes")
"""Errors of sbatch that come from the host, the network or the controller, not from the job."""
_HINTS = (
    ("Time|Wall", f"set --time or SBATCH_TIMELIMIT to what the partition allows; {_LISTED}"),
    ("Partition|Node|Constraints", f"change --nodes or --partition; {_LISTED}"),
    ("(?i)account", "name a project that may use the partition: --account PROJECT"),
    ("HeldUser", "repeat the command, and do not hold the job"),
    ("(?i)held|hold", "ask the site why it holds the job"),
)


class JobState(NamedTuple):
    """Hold the state of a job and its reason, as squeue prints them."""

    state: str
    reason: str = ""

    @property
    def waits(self) -> bool:
        """Return whether the job is in the queue."""
        return self.state == "PENDING" or self.state in _HELD

    @property
    def never_starts(self) -> bool:
        """Return whether the job stays in the queue until somebody changes something."""
        return self.state in _HELD or (self.waits and bool(_NEVER.fullmatch(self.reason)))


GONE, UNKNOWN = JobState(""), JobState("not known")
"""The state of a job that is over, and if Slurm does not say it."""


def time_limit(text: str) -> str:
    """Return a time such as ``2h`` or ``1d12h``, or one in Slurm's long form, for sbatch.

    Raises ``ValueError`` for other forms; Slurm reads ``2:00`` as two minutes.
    """
    if _LONG_TIME.fullmatch(text):
        return text
    parts = _TIME.fullmatch(text)
    minutes = sum(int(parts[unit] or 0) * many for unit, many in _MINUTES) if parts else 0
    if not minutes:
        raise ValueError(f"expected a time such as 2h, 90m or 1d12h, got {text!r}")
    return str(minutes)


def require(hint: str) -> None:
    """Raise ``HostError`` if this host has no Slurm; ``hint`` is the way without it."""
    if process.find("sbatch") is None:
        raise HostError(Problem("this host has no Slurm", why="sbatch is not on PATH", hint=hint))


def check(options: Sequence[str], partition: str) -> None:
    """Raise ``JobError`` if Slurm would never run a job; ``options`` are sbatch's."""
    if why := why_never(options, partition):
        raise refused(why)


def why_never(options: Sequence[str], partition: str, script: bytes = b"") -> str:
    """Return why Slurm would never run a job, or cannot be asked; empty if it may run.

    ``script`` is the text of the batch script, unless the options name its file. If nodes are out
    of service, Slurm cannot distinguish a job that waits from one that is too large. The reason in
    the queue then decides.
    """
    done = _run("sbatch", "--test-only", *options, limits=budget.QUESTION, stdin=script)
    why = clean(done.stderr).strip()
    if not done.returncode or (_NOT_NOW.search(why) and _out_of_service(partition)):
        return ""
    return why or f"sbatch ended with {done.returncode}"


def cannot_be_asked(why: str) -> bool:
    """Return whether an answer of sbatch says that it reached no Slurm."""
    return bool(_AWAY.search(why))


def _out_of_service(partition: str) -> bool:
    of = [f"--partition={partition}"] if partition else []
    try:
        listed = _run("sinfo", "--noheader", "--format=%a %T", *of)
    except HostError:
        return True  # Nobody knows; the queue will say it.
    lines = listed.stdout.splitlines()
    return any(not _IN_SERVICE.fullmatch(line.strip()) for line in lines)


def submit(options: Sequence[str], script: bytes = b"") -> str:
    """Submit a job; return its number. ``script`` is as for ``why_never``."""
    command = ("sbatch", "--parsable", *options)
    try:
        printed = _capture(*command, limits=budget.QUESTION, stdin=script)
    except process.ProgramError as error:
        raise refused(error.problems[0].why) from error
    # A site may let sbatch print more.
    if not (number := _NUMBER.search(printed)):
        why = process.last_lines(clean(printed)) or "it printed nothing"
        raise JobError(Problem("sbatch printed no job number", why=why, hint=_PING))
    return number[1]


def cancel(words: Sequence[str]) -> None:
    """Cancel jobs; ``words`` are scancel's arguments, which name them."""
    _capture("scancel", *words)


def wait_for_end(words: Sequence[str]) -> None:
    """Wait until no job that the words of squeue name is in the queue, a minute at most."""
    end = time.monotonic() + _LONGEST_END
    while time.monotonic() < end:
        with suppress(HostError):
            if not _run("squeue", "--noheader", "--format=%i", *words).stdout.strip():
                return
        time.sleep(_TURN)


def refused(why: str) -> JobError:
    """Return the error of a job that sbatch refuses, or cannot send to Slurm."""
    if _AWAY.search(why):
        return JobError(Problem("cannot reach Slurm", "sbatch", why, _PING))
    hint = _hint(why, f"{ASKS}; {_LISTED}")
    return JobError(Problem("Slurm refuses the job", "sbatch", why, hint))


def stuck(number: str, state: JobState) -> JobError:
    """Return the error of a job that cannot start by itself."""
    reason = state.reason or state.state
    what = f"Slurm cannot start the job: {reason}"
    why = "waiting does not end this state; the job was cancelled"
    return JobError(Problem(what, f"job {number}", why, _hint(reason, ASKS)))


def _hint(reason: str, default: str) -> str:
    return next((hint for words, hint in _HINTS if re.search(words, reason)), default)


def look(number: str) -> JobState:
    """Return the state of a job; ``UNKNOWN`` if Slurm does not say it."""
    try:
        printed = _capture("squeue", "--noheader", f"--jobs={number}", "--format=%T %r")
    except HostError as error:
        return GONE if _FORGOTTEN in str(error) else UNKNOWN
    if not printed.strip():
        return _look_closely(number)
    state, _, reason = clean(printed).strip().partition("\n")[0].partition(" ")
    if not _STATE.fullmatch(state):  # A site may let squeue print more.
        return _look_closely(number)
    return JobState(state, "" if reason == "None" else reason)


def _look_closely(number: str) -> JobState:
    """Return the state of a job that the queue does not show, which does not prove its end."""
    fields = _show_job(number)
    if fields is None:
        return UNKNOWN
    state = fields.get("JobState", "")
    return JobState(state) if _UNFINISHED.fullmatch(state) else GONE


def silent_nodes(number: str) -> list[str]:
    """Return the nodes of a job that do not answer Slurm, which ends the job after some minutes."""
    try:
        nodes = _capture("squeue", "--noheader", f"--jobs={number}", "--format=%N").strip()
    except HostError:
        return []
    return _nodes_in(_SILENT, nodes)


def _nodes_in(states: re.Pattern[str], nodes: str) -> list[str]:
    """Return the given nodes that are in one of the states (sinfo(1), NODE STATE CODES)."""
    if not nodes or process.find("sinfo") is None:
        return []
    try:
        printed = _capture("sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%N %T")
    except HostError:
        return []
    rows = (line.split() for line in printed.splitlines())
    return sorted({row[0] for row in rows if row[1:] and states.fullmatch(row[1])})


def is_queued(name: str) -> bool | None:
    """Return whether a job of this name waits or runs; None if Slurm cannot be asked."""
    if process.find("squeue") is None:
        return None
    try:
        return bool(_capture("squeue", "--noheader", "--format=%i", f"--name={name}").strip())
    except HostError:
        return None


def cluster() -> str:
    """Return the name of the cluster that jobs are sent to; empty if Slurm does not answer."""
    if process.find("scontrol") is None:
        return ""
    try:
        shown = _capture("scontrol", "show", "config")
    except HostError:
        return ""
    named = re.search(r"(?m)^ClusterName *= *(\S+)", shown)
    return named[1] if named else ""


def show_partitions() -> list[dict[str, str]]:
    """Return the fields of each partition; raise ``HostError`` if Slurm does not answer."""
    shown = _capture("scontrol", "--oneliner", "show", "partition")
    return [_fields(line) for line in clean(shown).splitlines()]


def last_state(number: str) -> str:
    """Return in words how a job ended."""
    fields = _show_job(number)
    if not fields:
        knows = "does not say how" if fields is None else "no longer knows it"
        return f"it ended, and Slurm {knows}"
    state, reason = fields.get("JobState", "it ended"), fields.get("Reason", "None")
    if state == LOST and (lost := _nodes_in(_DEAD, fields.get("NodeList", ""))):
        return f"{state} of {', '.join(lost)}"
    return state if reason == "None" else f"{state}, reason {reason}"


def log_of(number: str) -> Path | None:
    """Return the log of a job; None if Slurm does not say it."""
    try:
        shown = _capture("scontrol", "show", "job", number)
    except HostError:
        return None
    named = re.search(r"(?m)^ *StdOut=(/.*)$", shown)
    return Path(named[1]) if named else None


def require_success(number: str) -> None:
    """Raise ``JobError`` if a job that is over did not succeed."""
    fields = _show_job(number)
    if not fields:
        why = last_state(number)
        hint = f"sacct --jobs={number}, if the cluster keeps records, and the end of its log"
        raise JobError(Problem(f"the end of job {number} is not known", why=why, hint=hint))
    if fields["JobState"] == "COMPLETED":
        return
    code, _, signal = fields.get("ExitCode", "0:0").partition(":")
    ended = [f"exit code {code}"] if code != "0" else []
    ended += [f"signal {signal}"] if signal not in ("", "0") else []
    why = ", ".join([last_state(number), *ended])
    hint = f"lumicontainer postmortem {number}"
    raise JobError(Problem(f"job {number} failed", str(log_of(number) or ""), why, hint))


def next_of(number: str) -> str:
    """Return the number of the job that continues a job with ``--until-done``; empty for none."""
    comment = (_show_job(number) or {}).get("Comment", "")
    following = comment.removeprefix(CONTINUED)
    return following if following != comment and following.isdecimal() else ""


def job_records(number: str) -> list[dict[str, str]]:
    """Return what scontrol says of a job, and of each job of an array.

    Nothing if it does not know the job, or is not here.
    """
    return _show_jobs(number) or []


def job_account(number: str) -> list[list[str]]:
    """Return the state, the exit code and the nodes of a job and of each of its steps.

    Nothing without slurmdbd, or if it does not answer.
    """
    if process.find("sacct") is None:
        return []
    columns = "--format=JobID,State,ExitCode,NodeList"
    try:
        printed = _capture("sacct", "--noheader", "--parsable2", f"--jobs={number}", columns)
    except HostError:
        return []
    return [row for line in clean(printed).splitlines() if len(row := line.split("|")) == 4]


def dead_nodes(nodes: str) -> list[str]:
    """Return the given nodes that do not answer, or are down."""
    return _nodes_in(_DEAD, nodes)


def _show_job(number: str) -> dict[str, str] | None:
    """Return what Slurm knows of a job, nothing if it no longer knows the job.

    Of an array it is a job that is not over, else one that failed. None if it does not answer.
    """
    records = _show_jobs(number)
    return records if records is None else min(records, key=_how_well, default={})


def _how_well(fields: dict[str, str]) -> tuple[bool, bool]:
    state = fields["JobState"]
    return not _UNFINISHED.fullmatch(state), state == "COMPLETED"


def _show_jobs(number: str) -> list[dict[str, str]] | None:
    if process.find("scontrol") is None:
        return []
    try:
        printed = _capture("scontrol", "show", "job", number)
    except HostError as error:
        return [] if _FORGOTTEN in str(error) else None
    records = [_job_fields(text) for text in re.split(r"(?m)^(?=JobId=)", clean(printed))]
    return [fields for fields in records if "JobState" in fields] or None


_TEXT = re.compile(r"(?m)^ *(?:JobId=\S+ )?(JobName|Comment|Command|WorkDir|Std\w+)=(.*?) *$")
"""Fields with blanks in their values, each of which ends its line; Slurm may add a blank."""


def _job_fields(text: str) -> dict[str, str]:
    """Return the fields of a job; text that a user wrote into a field adds no other field."""
    texts = dict(_TEXT.findall(text))
    return {**texts, **_fields(_TEXT.sub("", text)), **_fields(text.partition(" ")[0])}


def _fields(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def _run(*command: str, limits: Helper | None = None, stdin: bytes = b"") -> process.Finished:
    limits = limits or budget.SLURM
    return process.run_to_end(command, env=environment(), limits=limits, stdin=stdin)


def _capture(*command: str, limits: Helper | None = None, stdin: bytes = b"") -> str:
    limits = limits or budget.SLURM
    return process.capture(command, env=environment(), limits=limits, stdin=stdin)


def environment() -> dict[str, str]:
    """Return the environment of programs of Slurm, without defaults that change what they do."""
    variables = {name: value for name, value in os.environ.items() if not _DEFAULTS.fullmatch(name)}
    # Only sbatch reads SBATCH_CLUSTERS; the others would look for the job in another cluster.
    clusters = os.environ.get("SBATCH_CLUSTERS")
    return {**variables, "SLURM_CLUSTERS": clusters} if clusters else variables
