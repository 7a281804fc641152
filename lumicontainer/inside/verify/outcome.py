"""What came of a check, and how it follows from how its processes ended."""

from __future__ import annotations

import json

from ..checking import FAILED as EXIT_FAILED
from ..checking import SKIPPED as EXIT_SKIPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .child import Ended

PASSED, FAILED, SKIPPED, ERROR = "passed", "failed", "skipped", "error"
OUTCOMES = (PASSED, SKIPPED, FAILED, ERROR)
"""From the best to the worst: of several ranks the worst is the check's."""
_REASONS = 20
"""Lines of output that are told as the reason."""


class Outcome:
    """Hold what came of a check on one process, or of all of them together."""

    __slots__ = ("left", "measured", "output", "rank", "reason", "seconds", "state", "told")

    def __init__(self, state: str, reason: str = "", *, output: str = "", rank: int = 0) -> None:
        self.state = state
        self.reason = reason
        self.output = output
        self.rank = rank
        self.seconds = 0.0
        self.measured: list[dict[str, Any]] = []
        self.told: dict[str, Any] = {}
        self.left: Sequence[int] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, for JSON and for another process."""
        return {name: getattr(self, name) for name in self.__slots__}


def from_plain(data: Mapping[str, Any]) -> Outcome:
    """Return the outcome that ``plain`` made plain data of."""
    outcome = Outcome(data["state"])
    for name in Outcome.__slots__:
        setattr(outcome, name, data[name])
    return outcome


def of_process(
    ended: Ended, report: str, *, check: Mapping[str, Any], architecture: str, rank: int = 0
) -> Outcome:
    """Return what one process of a check came to; ``report`` is what it wrote to REPORT.

    ``architecture`` is that of the GPUs here: thresholds of another are not judged.
    """
    outcome = Outcome(*_state(ended, check), output=ended.output, rank=rank)
    outcome.seconds = ended.seconds
    outcome.left = ended.left
    for line in report.splitlines():
        row = json.loads(line)
        if "told" in row:
            outcome.told[row["told"]] = row["value"]
        else:
            outcome.measured.append(judge(row, check, architecture))
    if outcome.state == SKIPPED:
        outcome.reason = outcome.told.pop("skipped", outcome.reason)
    missed = [row for row in outcome.measured if row["holds"] is False]
    if missed and outcome.state == PASSED:
        outcome.state = FAILED
        outcome.reason = "; ".join(map(missing, missed))
    return outcome


def _state(ended: Ended, check: Mapping[str, Any]) -> tuple[str, str]:
    last = "\n".join(ended.output.strip().splitlines()[-_REASONS:])
    if ended.code is None:
        return FAILED, f"it was not done after {check['seconds']} s\n{last}".strip()
    if ended.code == 0:
        return PASSED, ""
    if ended.code == EXIT_SKIPPED:
        return SKIPPED, last or "it does not say why"
    if ended.code == EXIT_FAILED:
        return FAILED, last or "it does not say why"
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    return ERROR, f"it ended with {how}\n{last}".strip()


def judge(row: Mapping[str, Any], check: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    """Return a measured value with its threshold, and whether it holds; None where none can say."""
    name, value = row["measured"], row["value"]
    told = {"name": name, "value": value, "holds": None}
    threshold = check.get("thresholds", {}).get(name)
    if threshold is None:
        return told
    told.update(threshold)
    of = threshold.get("of", "")
    if of and of != architecture:
        told["unjudged"] = f"it was measured on {of}, and this is {architecture or 'no GPU'}"
    elif "floor" in threshold:
        told["holds"] = value >= threshold["floor"]
    elif "ceiling" in threshold:
        told["holds"] = value <= threshold["ceiling"]
    else:
        told["unjudged"] = "its reference is of something else"
    return told


def missing(row: Mapping[str, Any]) -> str:
    """Return in words that a value misses its threshold."""
    unit, value = row["unit"], row["value"]
    if "floor" in row:
        limit, word = row["floor"], "less than"
    else:
        limit, word = row["ceiling"], "more than"
    return f"{row['name']} is {value:.4g} {unit}, {word} {limit:g} {unit} ({row['source']})"


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Return what the processes of a check came to together: the worst, with who it is."""
    ranks = sorted(outcomes, key=lambda one: one.rank)
    worst = max(ranks, key=lambda one: OUTCOMES.index(one.state))
    alike = [one for one in ranks if one.state == worst.state]
    result = Outcome(worst.state, _reason(alike, len(ranks)), rank=alike[0].rank)
    result.output = worst.output
    result.seconds = max(one.seconds for one in ranks)
    result.measured = [row for one in ranks for row in one.measured]
    result.left = [pid for one in ranks for pid in one.left]
    for one in ranks:
        for name, value in one.told.items():
            result.told.setdefault(name, value)
    return result


def _reason(alike: Sequence[Outcome], ranks: int) -> str:
    first = alike[0]
    if not first.reason or ranks == 1 or first.state == SKIPPED:
        return first.reason
    names = ", ".join(str(one.rank) for one in alike[:8]) + (", …" if len(alike) > 8 else "")
    return f"on rank {names} of {ranks}: {first.reason}"
