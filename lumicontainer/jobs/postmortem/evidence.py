"""All that was read of one job, and what follows from it at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lumicontainer.jobs.postmortem.collectives import Difference, compare
from lumicontainer.jobs.postmortem.ranks import SILENT, Rank, by_kind, of_kind, ranks_of
from lumicontainer.jobs.postmortem.reading import signatures
from lumicontainer.jobs.postmortem.reading.logs import Log
from lumicontainer.jobs.postmortem.reading.recorder import Dump

_MOST_RANKS = 200_000
"""More than any machine has; a hostile file can name more."""
_WELL = ("COMPLETED", "RUNNING", "PENDING")


@dataclass(frozen=True)
class Evidence:
    """Hold all that was read of one job."""

    logs: Sequence[Log]
    dumps: Sequence[Dump] = ()
    state: str = ""
    """The state of the job, if Slurm knows it."""
    nodes: Sequence[str] = ()
    """Nodes that Slurm says failed, or that do not answer it."""
    only_node: str = ""
    """The node of all ranks, if there was one."""
    rank_nodes: Mapping[int, str] = field(default_factory=dict)
    """The node of each rank, if it is known."""

    @cached_property
    def ranks(self) -> Mapping[int, Rank]:
        """Return all ranks that left logs or are named."""
        return ranks_of(self.logs, self.rank_nodes)

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
        return min(max(counts), _MOST_RANKS)

    @cached_property
    def has_failed(self) -> bool:
        """Return whether anything proves that the job failed."""
        if self.nodes or (self.state and self.state not in _WELL):
            return True
        if self.state == "COMPLETED":
            return False
        proven = any(event.is_end for log in self.logs for event in log.events)
        ended = [log.traceback for log in self.unranked if log.traceback]
        fatal = any(traceback.fatal for traceback in ended)
        cut = not self.state and self.ends_in_a_cause
        return bool(proven or fatal or self.dumps or cut or set(self.kinds) - {SILENT})

    @property
    def ends_in_a_cause(self) -> bool:
        """Return whether the last line of a rank, or of the output, can be the cause of an end."""
        pairs = [rank.logs for rank in self.ranks.values()] + [[log] for log in self.unranked]
        latest = [max(logs, key=lambda log: log.time) for logs in pairs if logs]
        return any(log.last_cause for log in latest)

    @cached_property
    def unranked(self) -> Sequence[Log]:
        """Return the logs whose lines name no rank, such as a job's output."""
        return [log for log in self.logs if log.rank is None]

    def waiting(self, *kinds: str) -> list[Rank]:
        """Return the ranks of some kinds."""
        return [rank for kind in kinds for rank in self.kinds.get(kind, ())]
