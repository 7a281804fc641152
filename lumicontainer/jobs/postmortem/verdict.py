"""The cause of a job's death, or that nothing failed, or that the cause is not known."""

from collections.abc import Sequence
from typing import Any, NamedTuple

NONE, CAUSE, UNKNOWN = "nothing failed", "cause", "unknown"


class Verdict(NamedTuple):
    """Hold one cause: who, where, why, and what to do."""

    outcome: str
    cause: str = ""
    signature: str = ""
    """The id of the signature, or of the rule, that decided."""
    ranks: Sequence[int] = ()
    nodes: Sequence[str] = ()
    place: str = ""
    """The line of the program."""
    log: str = ""
    """The line of the log."""
    evidence: Sequence[str] = ()
    then: str = ""
    """The end of the other ranks."""
    hint: str = ""
    source: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer postmortem --json`` prints it."""
        return {
            **self._asdict(),
            "ranks": list(self.ranks),
            "nodes": list(self.nodes),
            "evidence": list(self.evidence),
        }
