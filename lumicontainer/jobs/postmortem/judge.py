"""Join what all ranks, their launchers and Slurm say into one cause.

The rules are tried in order; the first that knows a cause decides. A rank that failed by itself
comes before ranks that waited for it, however many they are: the first death counts, and not the
loudest.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from lumicontainer.jobs.postmortem import collectives
from lumicontainer.jobs.postmortem.differences import DIFFERENCES, LOOK, by_difference
from lumicontainer.jobs.postmortem.evidence import Evidence
from lumicontainer.jobs.postmortem.ranks import EXCEPTION, SILENT, Rank, of_kind
from lumicontainer.jobs.postmortem.reading import signatures
from lumicontainer.jobs.postmortem.verdict import CAUSE, NONE, UNKNOWN, Verdict
from lumicontainer.jobs.postmortem.wording import (
    ENDS,
    LOST,
    by_event,
    by_lost_nodes,
    by_rank,
    by_state,
    by_traceback,
    consequences,
    is_of_memory,
    last_line_of,
    memory_events,
    nodes_of_message,
    nodes_of_ranks,
    where_of,
)

_OWN = (signatures.FATAL, signatures.CAUSE, EXCEPTION, signatures.ABORT)
"""Kinds of ranks that failed by themselves."""
_LATER = 1.0
"""Seconds after all time-outs that the last words of a late rank come."""
_TOGETHER = 5.0
"""Seconds in which the ranks end that one time-out ends.

Gloo closes all pairs of a rank that times out (gloo/transport/tcp/unbound_buffer.cc) before that
rank prints its traceback: on a busy node the log of a rank that lost its connection may end first.
"""


def find_cause(evidence: Evidence) -> Verdict:
    """Return the cause of a job's death."""
    if not evidence.has_failed:
        return Verdict(NONE, evidence=_suspicious(evidence))
    for rule in RULES:
        if (verdict := rule(evidence)) is not None:
            # Of a rank of torchrun, that one may only know the name localhost.
            return verdict._replace(nodes=_nodes(verdict, evidence) or verdict.nodes)
    return Verdict(UNKNOWN, evidence=[*_last_words(evidence), *_suspicious(evidence)])


def _nodes(verdict: Verdict, evidence: Evidence) -> list[str]:
    nodes = {evidence.rank_nodes.get(rank, evidence.only_node) for rank in verdict.ranks}
    return sorted(nodes - {""})


def _of_job(evidence: Evidence) -> Verdict | None:
    """Return a node that failed, or that preflight refused: all else follows from it."""
    for event in of_kind(evidence.logs, signatures.FATAL):
        if event.match.signature.id in ("node-failure", "preflight"):
            return by_event(event, nodes=nodes_of_message(event) or tuple(evidence.nodes))
    return by_state(evidence, LOST) or (by_lost_nodes(evidence) if evidence.nodes else None)


def _of_rank(evidence: Evidence) -> Verdict | None:
    """Return the rank that failed first by itself."""
    own = evidence.waiting(*_OWN)
    killed = [rank for rank in evidence.kinds.get(SILENT, ()) if rank.turn]
    candidates = [*own, *(rank for rank in killed if not own or rank.turn == 1)]
    if not candidates:
        return None
    first = min(candidates, key=lambda rank: (rank.turn or len(evidence.ranks) + 1, rank.time))
    if first.kind == SILENT:
        return _by_launcher(first, evidence)
    same = [rank for rank in own if _likeness(rank) == _likeness(first)]
    # A few that end in native code can follow from the first; a traceback of one place does not.
    ranks = same if first.traceback or len(same) * 2 > evidence.world else [first]
    return by_rank(first, evidence, ranks)


def _likeness(rank: Rank) -> tuple[str, str]:
    return (
        rank.event.match.signature.id if rank.event else "",
        f"{rank.traceback.place} {rank.traceback.kind}" if rank.traceback else "",
    )


def _by_launcher(rank: Rank, evidence: Evidence) -> Verdict:
    """Return a rank without a message if srun or torchrun says how it ended."""
    assert rank.ended is not None
    memory = memory_events(evidence)
    event = rank.ended if is_of_memory(rank.ended) or not memory else memory[0]
    numbers = rank.ended.match.ranks
    if not memory and not rank.logs and (verdict := _of_output(evidence)) is not None:
        words = [*verdict.evidence, rank.ended.text]
        return verdict._replace(ranks=numbers, nodes=nodes_of_message(rank.ended), evidence=words)
    verdict = by_event(event, ranks=numbers, nodes=nodes_of_message(rank.ended))
    words = [rank.ended.text, *(each.text for each in memory[:1]), *last_line_of(rank)]
    return verdict._replace(evidence=words, then=consequences(evidence, numbers))


def _of_output(evidence: Evidence) -> Verdict | None:
    """Return the first failure in output whose lines name no rank."""
    for log in evidence.unranked:
        for traceback in log.tracebacks:
            kinds = {message.kind for message in log.messages(traceback)}
            if not traceback.logged and not kinds & _FOLLOWING:
                return by_traceback(log, traceback)
    fatal = of_kind(evidence.unranked, signatures.FATAL)
    return by_event(fatal[0], nodes=nodes_of_message(fatal[0])) if fatal else None


def _of_traceback(evidence: Evidence) -> Verdict | None:
    """Return the exception with which a program ended that names no rank."""
    ended = [log.traceback for log in evidence.unranked if log.traceback]
    proven = of_kind(evidence.unranked, *signatures.PROVING)
    if not (proven or any(traceback.fatal for traceback in ended)):
        return None
    verdict = _of_output(evidence)
    return verdict if verdict is not None and verdict.place else None


_FOLLOWING = {*signatures.WAITING, signatures.MISMATCH, signatures.ABSENT}


def _of_collectives(evidence: Evidence) -> Verdict | None:
    """Return a rank that ran another collective, or came late or never."""
    for event in of_kind(evidence.logs, signatures.ABSENT):
        own = [rank for rank in evidence.ranks.values() if rank.event == event]
        place = own[0].traceback.place if own and own[0].traceback else ""
        return by_event(event, ranks=event.match.ranks)._replace(place=place)
    difference = evidence.difference
    if difference is not None and difference.kind in DIFFERENCES:
        return by_difference(difference, evidence)
    for event in of_kind(evidence.logs, signatures.MISMATCH):
        # The rank that prints it got something unexpected, and need not be the one that differs.
        return by_event(event)._replace(ranks=())
    return None


def _of_last_line(evidence: Evidence) -> Verdict | None:
    """Return the cause with which a log ends that lacks the traceback before it."""
    for rank in evidence.kinds.get(SILENT, ()):
        if (message := rank.last_message) is not None:
            then = consequences(evidence, (rank.number,))
            return by_event(message, ranks=(rank.number,))._replace(then=then)
    last = [event for log in evidence.unranked if (event := log.last_cause)]
    return by_event(last[0]) if last else None


def _of_start(evidence: Evidence) -> Verdict | None:
    """Return the ranks that kept all from meeting: they never started, or looked elsewhere."""
    tried = {event.rank: event for event in of_kind(evidence.logs, signatures.CONNECT)}
    elsewhere = [
        rank
        for rank in evidence.waiting(signatures.CONNECT, SILENT)
        if rank.number in tried and rank.number
    ]
    if elsewhere and (
        len(elsewhere) * 2 <= evidence.world or not evidence.kinds.get(signatures.START)
    ):
        ranks = [rank.number for rank in elsewhere]
        verdict = by_event(tried[ranks[0]], ranks=ranks)
        return verdict._replace(then=consequences(evidence, ranks))
    started = of_kind(evidence.logs, signatures.START)
    missing = sorted(set(range(evidence.world)) - set(evidence.ranks))
    if started and missing:
        verdict = by_event(started[0], ranks=missing)
        return verdict._replace(cause="it never started: it has no log")
    return by_event(started[0])._replace(ranks=()) if started else None


def _of_store(evidence: Evidence) -> Verdict | None:
    """Return the rank whose address all others waited for in the store."""
    waited = [event for event in of_kind(evidence.logs, signatures.TIMEOUT) if event.match.ranks]
    if len({event.match.ranks for event in waited}) != 1:
        return None
    ranks = waited[0].match.ranks
    return by_event(waited[0], ranks=ranks)._replace(then=consequences(evidence, ranks))


def _of_silence(evidence: Evidence) -> Verdict | None:
    """Return a rank that says nothing while all others wait for it."""
    timeouts = evidence.kinds.get(signatures.TIMEOUT, [])
    closed = evidence.kinds.get(signatures.CLOSED, [])
    silent = [rank.number for rank in evidence.kinds.get(SILENT, ())]
    silent += sorted(set(range(evidence.world)) - set(evidence.ranks))
    difference = evidence.difference
    if difference is not None and difference.kind == collectives.MISSING:
        silent = sorted(set(silent) & set(difference.ranks)) or silent
    # Of ranks that may have no logs at all, none can be blamed.
    if silent and len(silent) * 2 <= evidence.world and (timeouts or closed):
        died = _first_end(closed) + _TOGETHER < _first_end(timeouts)
        return _by_silence(silent, evidence, died=died)
    if timeouts:
        last = max(rank.time for rank in timeouts)
        late = [rank for rank in closed if rank.time > last + _LATER]
        if len(late) == 1:
            return by_rank(late[0], evidence, late)._replace(
                cause=_CAME_LATE, signature="late", hint=LOOK
            )
    return None


def _first_end(ranks: Iterable[Rank]) -> float:
    return min((rank.time for rank in ranks), default=math.inf)


_CAME_LATE = "it came to the collective when the others had waited for too long"
_DIED = "it ended without a message: a signal killed it, as for lack of memory, or it left early"
_LOOK_FOR_KILL = "sacct --jobs=JOB --format=JobID,State,MaxRSS shows a kill for lack of memory"
_HANGS = "it did not come: it was stopped, hangs, or is slower than the time-out"


def _by_silence(silent: Sequence[int], evidence: Evidence, *, died: bool) -> Verdict:
    ranks = [evidence.ranks[each] for each in silent if each in evidence.ranks]
    calls = evidence.difference.common if evidence.difference else None
    memory = memory_events(evidence) if died else []
    row = memory[0].match.signature if memory else None
    return Verdict(
        CAUSE,
        row.cause if row else _DIED if died else _HANGS,
        row.id if row else "silent-death" if died else "silent-hang",
        silent,
        nodes_of_ranks(silent, evidence),
        "",
        "",
        [event.text for event in memory[:1]]
        + [word for rank in ranks[:3] for word in last_line_of(rank)]
        + ([f"the others were in {calls.described()} at {calls.place}"] if calls else []),
        consequences(evidence, silent),
        row.hint if row else _LOOK_FOR_KILL if died else LOOK,
    )


_NO_TREES = "unset NCCL_NET_GDR_LEVEL with ROCm 7; from 64 ranks on export NCCL_MAX_NCHANNELS=20"
_STUCK = "all ranks waited in {}, which did not end: the network, or a GPU"


def _of_network(evidence: Evidence) -> Verdict | None:
    """Return why all ranks wait in one collective: the network, or RCCL's start on it."""
    notes = of_kind(evidence.logs, signatures.NOTE)
    names = {event.match.signature.id: event for event in notes}
    if "rings" in names and "trees" not in names:
        return Verdict(
            CAUSE,
            "RCCL connected its rings and no trees: its network plugin hangs while it connects",
            "rings-without-trees",
            log=where_of(names["rings"]),
            evidence=[names["rings"].text],
            hint=_NO_TREES,
            source="laifs-container-recipes issue 28; aws-ofi-nccl issue 1379",
        )
    difference = evidence.difference
    timed_out = bool(evidence.kinds.get(signatures.TIMEOUT)) or evidence.state == "TIMEOUT"
    if timed_out and difference is not None and difference.kind == collectives.STUCK:
        verdict = Verdict(
            CAUSE,
            _STUCK.format(difference.common.described()),
            "all-wait",
            place=difference.common.place,
            hint="send the job again with NCCL_DEBUG=INFO; lumi-entry --preflight checks each node",
            source="PyTorch's flight recorder",
        )
        return verdict._replace(
            evidence=[event.text for event in notes if event.match.signature.hint][:3]
        )
    return None


def _of_symptom(evidence: Evidence) -> Verdict | None:
    """Return a message that can have other causes, if there is no better one."""
    ranks = evidence.kinds.get(signatures.SYMPTOM, [])
    return by_rank(min(ranks, key=lambda rank: rank.time), evidence, ranks) if ranks else None


def _of_slurm(evidence: Evidence) -> Verdict | None:
    """Return why Slurm ended the job."""
    for event in of_kind(evidence.logs, signatures.FATAL, signatures.CANCELLED):
        return by_event(event, nodes=nodes_of_message(event))
    return by_state(evidence, *ENDS)


RULES: Sequence[Callable[[Evidence], Verdict | None]] = (
    _of_job,
    _of_rank,
    _of_traceback,
    _of_last_line,
    _of_collectives,
    _of_start,
    _of_store,
    _of_silence,
    _of_network,
    _of_symptom,
    _of_slurm,
)


def _suspicious(evidence: Evidence) -> list[str]:
    """Return messages that could be a cause, of logs that do not say how the job ended."""
    if evidence.state == "COMPLETED":
        return []
    kinds = (signatures.FATAL, signatures.CAUSE, signatures.MISMATCH, *signatures.WAITING)
    return [f"{where_of(event)}: {event.text}" for event in of_kind(evidence.logs, *kinds)[:3]]


def _last_words(evidence: Evidence) -> list[str]:
    count = Counter(rank.kind or "no message" for rank in evidence.ranks.values())
    said = [f"{number} ranks: {kind}" for kind, number in count.most_common()]
    return said + [f"Slurm: {evidence.state}"] * bool(evidence.state)
