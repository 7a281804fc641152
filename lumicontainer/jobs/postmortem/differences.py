"""The verdict on ranks whose collectives differ from the others'."""

from collections.abc import Mapping, Sequence

from lumicontainer.jobs.postmortem import collectives
from lumicontainer.jobs.postmortem.collectives import Difference
from lumicontainer.jobs.postmortem.evidence import Evidence
from lumicontainer.jobs.postmortem.ranks import listed
from lumicontainer.jobs.postmortem.reading.recorder import Collective
from lumicontainer.jobs.postmortem.verdict import CAUSE, Verdict
from lumicontainer.jobs.postmortem.wording import consequences, nodes_of_ranks

DIFFERENCES: Mapping[str, str] = {
    collectives.OTHER_SHAPE: "it ran {theirs}, and the others {common}",
    collectives.OTHER_CALL: "it ran {theirs}, and the others {common}",
    collectives.SKIPPED: "it skipped {common}, which the others ran at {place}",
    collectives.ABSENT: "it never came to {common}, in which the others waited at {place}",
    collectives.SLOW: "it came to {common} when the others had waited for too long",
}
_SAME_CALLS = "call the same collectives with the same sizes in every rank, also if one has no data"
LOOK = "look at what it did meanwhile: uneven data, a slow disk, a checkpoint, an evaluation"


def by_difference(difference: Difference, evidence: Evidence) -> Verdict:
    """Return who ran other collectives than the others, or came late or never."""
    theirs, common = difference.theirs, difference.common
    assert theirs is not None
    if difference.kind == collectives.ABSENT and (alone := _alone(difference, evidence)):
        return alone
    late = difference.kind in (collectives.ABSENT, collectives.SLOW)
    words = [
        _called(difference.ranks, theirs),
        _called(difference.others, common),
    ]
    return Verdict(
        CAUSE,
        DIFFERENCES[difference.kind].format(
            theirs=theirs.described(), common=common.described(), place=common.place
        ),
        difference.kind.replace(" ", "-"),
        difference.ranks,
        nodes_of_ranks(difference.ranks, evidence),
        (_place_of(difference.ranks, evidence) if late else "") or theirs.place,
        "",
        words,
        consequences(evidence, difference.ranks),
        LOOK if late else _SAME_CALLS,
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
                nodes_of_ranks((dump.rank,), evidence),
                last.place,
                then=consequences(evidence, (dump.rank,)),
                hint="let the other rank send, with the same tag and group, what this one receives",
                source="PyTorch's flight recorder",
            )
    return None


def _called(ranks: Sequence[int], call: Collective) -> str:
    noun = "rank" if len(ranks) == 1 else "ranks"
    at = f" at {call.place} in {call.function}" if call.place else ""
    number = f"number {call.number} of {call.title}"
    return f"{noun} {listed(ranks)}: {call.described()}, {number}{at}"
