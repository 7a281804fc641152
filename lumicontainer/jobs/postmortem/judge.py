"""Join what all ranks, their launchers and Slurm say into one cause.

The rules are tried in order; the first that knows a cause decides. A rank that failed by itself
comes before ranks that waited for it, however many they are: the first death counts, and not the
loudest.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lumicontainer.jobs.postmortem import collectives, signatures
from lumicontainer.jobs.postmortem.collectives import Difference, compare
from lumicontainer.jobs.postmortem.logs import Log, Message
from lumicontainer.jobs.postmortem.ranks import (
    EXCEPTION,
    SILENT,
    Rank,
    by_kind,
    listed,
    of_kind,
    ranks_of,
)
from lumicontainer.jobs.postmortem.recorder import Collective, Dump
from lumicontainer.jobs.postmortem.verdict import CAUSE, NONE, UNKNOWN, Verdict

_OWN = (signatures.FATAL, signatures.CAUSE, EXCEPTION, signatures.ABORT)
"""Kinds of ranks that failed by themselves."""
_ENDS = {
    "NODE_FAIL": "node-failure",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "OUT_OF_MEMORY": "slurm-out-of-memory",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
}
"""Signatures of the states in which Slurm ends a job (https://slurm.schedmd.com/job_state_codes.html)."""
_WELL = ("COMPLETED", "RUNNING", "PENDING")
_LATER = 1.0
"""Seconds after all time-outs that the last words of a late rank come."""


@dataclass(frozen=True)
class Evidence:
    """Hold all that was read of one job."""

    logs: Sequence[Log]
    dumps: Sequence[Dump] = ()
    state: str = ""
    """The state of the job, if Slurm knows it."""
    nodes: Sequence[str] = ()
    """Nodes that Slurm says failed."""

    @cached_property
    def ranks(self) -> Mapping[int, Rank]:
        """Return all ranks that left logs or are named."""
        return ranks_of(self.logs)

    @cached_property
    def kinds(self) -> Mapping[str, list[Rank]]:
        """Return the ranks by the kind of their end."""
        return by_kind(self.ranks)

    @cached_property
    def difference(self) -> Difference | None:
        """Return where the collectives of the ranks differ."""
        return compare(self.dumps) if self.dumps else None

    @cached_property
    def world(self) -> int:
        """Return the number of ranks that there should be."""
        counts = [max(self.ranks, default=-1) + 1]
        counts += [
            max(each, default=-1) + 1 for dump in self.dumps for each in dump.members.values()
        ]
        for event in of_kind(self.logs, signatures.START):
            counts.append(int(event.match.detail.partition("/")[2] or 0))
        return max(counts)

    @cached_property
    def has_failed(self) -> bool:
        """Return whether anything proves that the job failed."""
        if self.state and self.state not in _WELL:
            return True
        if self.state == "COMPLETED":
            return False
        proven = of_kind(self.logs, *signatures.PROVING)
        return bool(proven or self.dumps or set(self.kinds) - {SILENT})

    def waiting(self, *kinds: str) -> list[Rank]:
        """Return the ranks of some kinds."""
        return [rank for kind in kinds for rank in self.kinds.get(kind, ())]


def find_cause(evidence: Evidence) -> Verdict:
    """Return the cause of a job's death."""
    if not evidence.has_failed:
        return Verdict(NONE)
    for rule in RULES:
        if (verdict := rule(evidence)) is not None:
            return verdict
    return Verdict(UNKNOWN, evidence=_last_words(evidence))


def _of_job(evidence: Evidence) -> Verdict | None:
    """Return a node that failed, or that preflight refused: all else follows from it."""
    for event in of_kind(evidence.logs, signatures.FATAL):
        if event.match.signature.id in ("node-failure", "preflight"):
            return _by_event(event, nodes=_nodes(event) or tuple(evidence.nodes))
    return _by_state(evidence, "NODE_FAIL")


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
    ranks = same if len(same) * 2 > evidence.world else [first]
    return _by_rank(first, evidence, ranks)


def _likeness(rank: Rank) -> tuple[str, str]:
    return (
        rank.event.match.signature.id if rank.event else "",
        rank.traceback.place if rank.traceback else "",
    )


def _by_rank(rank: Rank, evidence: Evidence, ranks: Sequence[Rank]) -> Verdict:
    event, traceback, log = rank.event, rank.traceback, rank.fatal_log
    signature = event.match.signature if event else None
    words = [event.text] if event else []
    if traceback is not None and traceback.error not in words:
        words.insert(0, traceback.error)
    where = f"{log.path}:{traceback.line}" if log and traceback else _where(event)
    return Verdict(
        CAUSE,
        signature.cause if signature else "an exception ended it",
        signature.id if signature else EXCEPTION,
        [each.number for each in ranks],
        sorted({each.node for each in ranks if each.node}),
        traceback.place if traceback else _native_place(rank),
        where,
        words,
        _then(evidence, [each.number for each in ranks]),
        signature.hint
        if signature
        else "the traceback in its log shows how the program came there",
        signature.source if signature else "",
    )


def _by_launcher(rank: Rank, evidence: Evidence) -> Verdict:
    """Return a rank without a message, of which srun or torchrun says how it ended."""
    assert rank.ended is not None
    memory = [
        event
        for event in of_kind(evidence.logs, signatures.FATAL)
        if "memory" in event.match.signature.id
    ]
    event = memory[0] if memory else rank.ended
    if not memory and evidence.state == "OUT_OF_MEMORY":
        event = rank.ended
    numbers = rank.ended.match.ranks
    verdict = _by_event(event, ranks=numbers, nodes=_nodes(rank.ended))
    words = [rank.ended.text, *(each.text for each in memory[:1]), *_last_line(rank)]
    return verdict._replace(evidence=words, then=_then(evidence, numbers))


def _of_collectives(evidence: Evidence) -> Verdict | None:
    """Return a rank that ran another collective, or came late or never."""
    for event in of_kind(evidence.logs, signatures.ABSENT):
        own = [rank for rank in evidence.ranks.values() if rank.event == event]
        place = own[0].traceback.place if own and own[0].traceback else ""
        return _by_event(event, ranks=event.match.ranks)._replace(place=place)
    difference = evidence.difference
    if difference is not None and difference.kind in _DIFFERENCES:
        return _by_difference(difference, evidence)
    for event in of_kind(evidence.logs, signatures.MISMATCH):
        return _by_event(event, ranks=event.match.ranks)
    return None


_DIFFERENCES: Mapping[str, str] = {
    collectives.OTHER_SHAPE: "it ran {theirs}, and the others {common}",
    collectives.OTHER_CALL: "it ran {theirs}, and the others {common}",
    collectives.SKIPPED: "it skipped {common}, which the others ran at {place}",
    collectives.ABSENT: "it never came to {common}, in which the others waited at {place}",
    collectives.SLOW: "it came to {common} when the others had waited for too long",
}
_SAME_CALLS = "call the same collectives with the same sizes in every rank, also if one has no data"
_LOOK = "look at what it did meanwhile: uneven data, a slow disk, a checkpoint, an evaluation"


def _by_difference(difference: Difference, evidence: Evidence) -> Verdict:
    theirs, common = difference.theirs, difference.common
    assert theirs is not None
    if difference.kind == collectives.ABSENT and (alone := _alone(difference, evidence)):
        return alone
    late = difference.kind in (collectives.ABSENT, collectives.SLOW)
    words = [
        _called(difference.ranks, theirs, difference),
        _called(difference.others, common, difference),
    ]
    return Verdict(
        CAUSE,
        _DIFFERENCES[difference.kind].format(
            theirs=theirs.described(), common=common.described(), place=common.place
        ),
        difference.kind.replace(" ", "-"),
        difference.ranks,
        _nodes_of(difference.ranks, evidence),
        (_place_of(difference.ranks, evidence) if late else "") or theirs.place,
        "",
        words,
        _then(evidence, difference.ranks),
        _LOOK if late else _SAME_CALLS,
        "PyTorch's flight recorder",
    )


def _place_of(numbers: Sequence[int], evidence: Evidence) -> str:
    """Return the line with which the first of some ranks ended."""
    ranks = [evidence.ranks[each] for each in numbers if each in evidence.ranks]
    return next((rank.traceback.place for rank in ranks if rank.traceback), "")


def _alone(difference: Difference, evidence: Evidence) -> Verdict | None:
    """Return a rank that waited for one other, while the rest were in a collective."""
    for dump in evidence.dumps:
        last = dump.calls[-1]
        if dump.rank in difference.ranks and last.peer_to_peer and not last.ended:
            return Verdict(
                CAUSE,
                f"it waited alone in {last.operation}, while the others were in "
                f"{difference.common.described()} at {difference.common.place}",
                "peer-to-peer",
                (dump.rank,),
                _nodes_of((dump.rank,), evidence),
                last.place,
                then=_then(evidence, (dump.rank,)),
                hint="let the other rank send, with the same tag and group, what this one receives",
                source="PyTorch's flight recorder",
            )
    return None


def _called(ranks: Sequence[int], call: Collective, difference: Difference) -> str:
    noun = "rank" if len(ranks) == 1 else "ranks"
    at = f" at {call.place} in {call.function}" if call.place else ""
    number = f"number {call.number} of {difference.group}"
    return f"{noun} {listed(ranks)}: {call.described()}, {number}{at}"


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
        verdict = _by_event(tried[ranks[0]], ranks=ranks)
        return verdict._replace(then=_then(evidence, ranks))
    started = of_kind(evidence.logs, signatures.START)
    missing = sorted(set(range(evidence.world)) - set(evidence.ranks))
    if started and missing:
        verdict = _by_event(started[0], ranks=missing)
        return verdict._replace(cause="it never started: it has no log")
    return _by_event(started[0]) if started else None


def _of_silence(evidence: Evidence) -> Verdict | None:
    """Return a rank that says nothing while all others wait for it."""
    timeouts = evidence.kinds.get(signatures.TIMEOUT, [])
    closed = evidence.kinds.get(signatures.CLOSED, [])
    silent = [rank.number for rank in evidence.kinds.get(SILENT, ())]
    silent += sorted(set(range(evidence.world)) - set(evidence.ranks))
    difference = evidence.difference
    if difference is not None and difference.kind == collectives.MISSING:
        silent = sorted(set(silent) & set(difference.ranks)) or silent
    if silent and len(silent) < evidence.world and (timeouts or closed):
        first = min([*timeouts, *closed], key=lambda rank: rank.time)
        return _by_silence(silent, evidence, died=first.kind == signatures.CLOSED)
    if timeouts:
        last = max(rank.time for rank in timeouts)
        late = [rank for rank in closed if rank.time > last + _LATER]
        if len(late) == 1:
            return _by_rank(late[0], evidence, late)._replace(
                cause=_CAME_LATE, signature="late", hint=_LOOK
            )
    return None


_CAME_LATE = "it came to the collective when the others had waited for too long"
_DIED = "it ended without a message: a signal killed it, as for lack of memory, or it left early"
_LOOK_FOR_KILL = "sacct --jobs=JOB --format=JobID,State,MaxRSS shows a kill for lack of memory"
_HANGS = "it did not come: it was stopped, hangs, or is slower than the time-out"


def _by_silence(silent: Sequence[int], evidence: Evidence, *, died: bool) -> Verdict:
    ranks = [evidence.ranks[each] for each in silent if each in evidence.ranks]
    calls = evidence.difference.common if evidence.difference else None
    return Verdict(
        CAUSE,
        _DIED if died else _HANGS,
        "silent-death" if died else "silent-hang",
        silent,
        _nodes_of(silent, evidence),
        "",
        "",
        [word for rank in ranks[:3] for word in _last_line(rank)]
        + ([f"the others were in {calls.described()} at {calls.place}"] if calls else []),
        _then(evidence, silent),
        _LOOK_FOR_KILL if died else _LOOK,
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
            log=_where(names["rings"]),
            evidence=[names["rings"].text],
            hint=_NO_TREES,
            source="laifs-container-recipes issue 28; aws-ofi-nccl issue 1379",
        )
    difference = evidence.difference
    if difference is not None and difference.kind == collectives.STUCK:
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
    return _by_rank(min(ranks, key=lambda rank: rank.time), evidence, ranks) if ranks else None


def _of_slurm(evidence: Evidence) -> Verdict | None:
    """Return why Slurm ended the job."""
    for event in of_kind(evidence.logs, signatures.FATAL, signatures.CANCELLED):
        return _by_event(event, nodes=_nodes(event))
    return _by_state(evidence, *_ENDS)


RULES: Sequence[Callable[[Evidence], Verdict | None]] = (
    _of_job,
    _of_rank,
    _of_collectives,
    _of_start,
    _of_silence,
    _of_network,
    _of_symptom,
    _of_slurm,
)


def _by_state(evidence: Evidence, *states: str) -> Verdict | None:
    if evidence.state not in states:
        return None
    row = next(row for row in signatures.signatures() if row.id == _ENDS[evidence.state])
    said = [f"Slurm: {evidence.state}"]
    return Verdict(
        CAUSE,
        row.cause,
        row.id,
        nodes=evidence.nodes,
        evidence=said,
        hint=row.hint,
        source=row.source,
    )


def _by_event(event: Message, *, ranks: Sequence[int] = (), nodes: Sequence[str] = ()) -> Verdict:
    row = event.match.signature
    return Verdict(
        CAUSE,
        row.cause,
        row.id,
        ranks or (() if event.rank is None else (event.rank,)),
        nodes,
        log=_where(event),
        evidence=[event.text],
        hint=row.hint,
        source=row.source,
    )


def _where(event: Message | None) -> str:
    return f"{event.path}:{event.line}" if event else ""


def _nodes(event: Message) -> tuple[str, ...]:
    return (event.match.node,) if event.match.node else ()


def _nodes_of(numbers: Sequence[int], evidence: Evidence) -> list[str]:
    nodes = {evidence.ranks[each].node for each in numbers if each in evidence.ranks}
    return sorted(nodes - {""})


def _native_place(rank: Rank) -> str:
    """Return the line that faulthandler names."""
    return next((log.native_place for log in rank.logs if log.native_place), "")


def _last_line(rank: Rank) -> list[str]:
    return [f"last line of rank {rank.number}: {rank.last_line}"] if rank.last_line else []


def _last_words(evidence: Evidence) -> list[str]:
    count = Counter(rank.kind or "no message" for rank in evidence.ranks.values())
    said = [f"{number} ranks: {kind}" for kind, number in count.most_common()]
    return said + [f"Slurm: {evidence.state}"] * bool(evidence.state)


_FOLLOWING = {
    signatures.CLOSED: "lost a connection",
    signatures.TIMEOUT: "waited in vain",
    signatures.CONNECT: "did not reach rank 0",
    signatures.START: "waited for the others to start",
}


def _then(evidence: Evidence, first: Sequence[int]) -> str:
    """Return what happened to the other ranks."""
    parts = []
    for kind, words in _FOLLOWING.items():
        others = [rank.number for rank in evidence.kinds.get(kind, ()) if rank.number not in first]
        if others:
            parts.append(f"{'rank' if len(others) == 1 else 'ranks'} {listed(others)} {words}")
    return "; ".join(parts)
