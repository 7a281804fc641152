"""Verdicts of one message, of one rank and of Slurm's state, with what the other ranks did."""

from collections.abc import Sequence

from lumicontainer.jobs.postmortem.evidence import Evidence
from lumicontainer.jobs.postmortem.ranks import EXCEPTION, Rank, listed, of_kind
from lumicontainer.jobs.postmortem.reading import signatures
from lumicontainer.jobs.postmortem.reading.logs import Log, Message
from lumicontainer.jobs.postmortem.reading.tracebacks import Traceback
from lumicontainer.jobs.postmortem.verdict import CAUSE, Verdict

LOST = "NODE_FAIL"
_EXCEPTION = "an exception ended it"
_TRACEBACK = "the traceback in its log shows how the program came there"
ENDS = {
    LOST: "node-failure",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "OUT_OF_MEMORY": "slurm-out-of-memory",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
}
"""Signatures of the states in which Slurm ends a job (https://slurm.schedmd.com/job_state_codes.html)."""


def by_event(event: Message, *, ranks: Sequence[int] = (), nodes: Sequence[str] = ()) -> Verdict:
    """Return the verdict of one message, which is the whole cause."""
    row = event.match.signature
    return Verdict(
        CAUSE,
        row.cause,
        row.id,
        ranks or (() if event.rank is None else (event.rank,)),
        nodes,
        log=where_of(event),
        evidence=[event.text],
        hint=row.hint,
        source=row.source,
    )


def by_rank(rank: Rank, evidence: Evidence, ranks: Sequence[Rank]) -> Verdict:
    """Return the verdict on ``ranks``, which ended as ``rank`` did."""
    event, traceback, log = rank.event, rank.traceback, rank.fatal_log
    signature = event.match.signature if event else None
    words = [event.text] if event else []
    if traceback is not None and traceback.error not in words:
        words.insert(0, traceback.error)
    if rank.ended and is_of_memory(rank.ended):
        words.append(rank.ended.text)
    where = f"{log.path}:{traceback.line}" if log and traceback else where_of(event)
    return Verdict(
        CAUSE,
        signature.cause if signature else _EXCEPTION,
        signature.id if signature else EXCEPTION,
        [each.number for each in ranks],
        sorted({each.node for each in ranks if each.node}),
        traceback.place if traceback else native_place_of(rank),
        where,
        words,
        consequences(evidence, [each.number for each in ranks]),
        signature.hint if signature else _TRACEBACK,
        signature.source if signature else "",
    )


def by_traceback(log: Log, traceback: Traceback) -> Verdict:
    """Return the verdict of a traceback in output that names no rank."""
    known = (signatures.FATAL, signatures.CAUSE)
    messages = [each for each in log.messages(traceback) if each.kind in known]
    first = min(messages, key=lambda each: each.match.signature.order, default=None)
    row = first.match.signature if first else None
    return Verdict(
        CAUSE,
        row.cause if row else _EXCEPTION,
        row.id if row else EXCEPTION,
        place=traceback.place,
        log=f"{log.path}:{traceback.line}",
        evidence=[traceback.error],
        hint=row.hint if row else _TRACEBACK,
        source=row.source if row else "",
    )


def by_state(evidence: Evidence, *states: str) -> Verdict | None:
    """Return the verdict of one of these states of Slurm; None in others."""
    if evidence.state not in states:
        return None
    return _by_slurm(evidence, ENDS[evidence.state], f"Slurm: {evidence.state}")


def by_lost_nodes(evidence: Evidence) -> Verdict:
    """Return the verdict on nodes that do not answer while Slurm still waits for them."""
    words = f"Slurm: {evidence.state}, and {', '.join(evidence.nodes)} does not answer"
    return _by_slurm(evidence, ENDS[LOST], words)


def _by_slurm(evidence: Evidence, signature: str, words: str) -> Verdict:
    row = next(row for row in signatures.signatures() if row.id == signature)
    return Verdict(
        CAUSE,
        row.cause,
        row.id,
        nodes=evidence.nodes,
        evidence=[words],
        hint=row.hint,
        source=row.source,
    )


def where_of(event: Message | None) -> str:
    """Return the file and the line of a message."""
    return f"{event.path}:{event.line}" if event else ""


def is_of_memory(event: Message) -> bool:
    """Return whether a message says that memory was used up."""
    return "memory" in event.match.signature.id


def memory_events(evidence: Evidence) -> list[Message]:
    """Return what Slurm and the kernel say of processes that they killed for lack of memory."""
    events = of_kind(evidence.logs, signatures.FATAL, signatures.ENDED)
    return [event for event in events if is_of_memory(event)]


def nodes_of_message(event: Message) -> tuple[str, ...]:
    """Return the nodes that a message names."""
    return (event.match.node,) if event.match.node else ()


def nodes_of_ranks(numbers: Sequence[int], evidence: Evidence) -> list[str]:
    """Return the nodes of ranks, if they are known."""
    nodes = {evidence.ranks[each].node for each in numbers if each in evidence.ranks}
    return sorted(nodes - {""})


def native_place_of(rank: Rank) -> str:
    """Return the line that faulthandler names."""
    return next((log.native_place for log in rank.logs if log.native_place), "")


def last_line_of(rank: Rank) -> list[str]:
    """Return the last words of a rank that did not end with a traceback of Python."""
    logged = rank.logged
    words = [f"rank {rank.number} logged at {logged.place}: {logged.error}"] if logged else []
    return words + (
        [f"last line of rank {rank.number}: {rank.last_line}"] if rank.last_line else []
    )


_FOLLOWING = {
    signatures.CLOSED: "lost a connection",
    signatures.TIMEOUT: "waited in vain",
    signatures.CONNECT: "did not reach rank 0",
    signatures.START: "waited for the others to start",
}


def consequences(evidence: Evidence, first: Sequence[int]) -> str:
    """Return what happened to the other ranks."""
    parts = []
    for kind, words in _FOLLOWING.items():
        others = [rank.number for rank in evidence.kinds.get(kind, ()) if rank.number not in first]
        if others:
            parts.append(f"{'rank' if len(others) == 1 else 'ranks'} {listed(others)} {words}")
    return "; ".join(parts)
