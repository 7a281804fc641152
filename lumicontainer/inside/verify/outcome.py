"""The outcome of a check, and how it follows from how its processes ended."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..checking import FAILED as EXIT_FAILED
from ..checking import SKIPPED as EXIT_SKIPPED
from .process import Ended
from .resources import Check

PASSED, FAILED, SKIPPED, ERROR = "passed", "failed", "skipped", "error"
# From the best to the worst: of several ranks the worst is the check's.
OUTCOMES = (PASSED, SKIPPED, FAILED, ERROR)
_REASONS = 20  # lines of output that are shown as the reason
# The innermost line of a stack that faulthandler prints: of any thread, the main one last, and of
# the thread that got the signal, which is the main one unless that blocks it.
_STACK = r"\(most recent call first\):\n +(.+)$"
_INNERMOST = re.compile(f"(?m){_STACK}")
_CURRENT = re.compile(f"(?m)^Current thread .*{_STACK}")
_LONGEST = 400  # characters of a line of a reason
OUTPUT = 1 << 20  # characters of output that are kept of all ranks together


@dataclass
class Outcome:
    """The outcome of a check on one process, or of all of them together.

    ``host`` is the node of ``rank``; ``halted``: the process did not fail, but was ended
    because another rank had. ``ranks`` has a row for each process, if there are several.
    """

    state: str
    reason: str = ""
    output: str = ""
    rank: int = 0
    host: str = ""
    halted: bool = False
    ranks: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    measured: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the outcome as plain data for JSON."""
        return dict(vars(self))


_TYPES = {
    **{name: (type(value),) for name, value in vars(Outcome("")).items()},
    "seconds": (float, int),
}
_MOST_SECONDS = 1e9
# The types of the fields of a row of ``ranks``.
_OF_RANK = {name: _TYPES[name] for name in ("rank", "host", "state", "halted", "reason", "seconds")}
# The types of the fields of a row that ``judge`` returns.
_OF_MEASURED: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "unit", "source", "unjudged"), (str,)),
    **dict.fromkeys(("minimum", "maximum"), (int, float)),
    "value": (int, float, type(None)),
    "holds": (bool, type(None)),
}


def from_plain(data: Mapping[str, Any]) -> Outcome:
    """Return the outcome from ``plain``'s data; raise ValueError if they are invalid."""
    for name, kinds in _TYPES.items():
        if type(data.get(name)) not in kinds:
            raise ValueError(f"'{name}' of an outcome must be of the type {kinds[0].__name__}")
    rows = all(map(_is_rank, data["ranks"]))
    # Comparisons with NaN are false.
    if not rows or not 0 <= data["seconds"] < _MOST_SECONDS or data["state"] not in OUTCOMES:
        raise ValueError("an outcome has an invalid state, time or rank")
    if not all(map(_is_measured, data["measured"])):
        raise ValueError("an outcome has an invalid measured value")
    return Outcome(**{name: data[name] for name in _TYPES})


def _is_rank(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(type(row.get(name)) in kinds for name, kinds in _OF_RANK.items())
        and row["state"] in OUTCOMES
    )


def _is_measured(row: Any) -> bool:
    if not isinstance(row, dict) or not {"name", "value", "holds"} <= row.keys():
        return False
    limited = not row.keys() & {"minimum", "maximum"} or {"unit", "source"} <= row.keys()
    return limited and all(
        type(row[name]) in _OF_MEASURED[name] for name in row.keys() & _OF_MEASURED
    )


def of_process(
    ended: Ended, report: str, *, check: Check, architecture: str, rank: int = 0
) -> Outcome:
    """Return the outcome of one process of a check; ``report`` is the content of REPORT.

    ``architecture`` is the GPUs': thresholds for another one are not judged.
    """
    outcome = Outcome(*_state(ended, check), output=ended.output, rank=rank)
    outcome.halted = ended.code is None and bool(ended.why)
    outcome.seconds = ended.seconds
    for row in _rows(report):
        if "fact" in row:
            outcome.facts[row["fact"]] = row.get("value")
        elif "measured" in row:
            outcome.measured.append(judge(row, check, architecture))
    if outcome.state == SKIPPED:
        outcome.reason = str(outcome.facts.pop("skipped", outcome.reason))
    missed = [row for row in outcome.measured if row["holds"] is False]
    if missed and outcome.state == PASSED:
        outcome.state = FAILED
        outcome.reason = "; ".join(map(missing, missed))
    return outcome


def _rows(report: str) -> Iterable[Mapping[str, Any]]:
    """Yield the lines of a report; skip one that a killed process left incomplete."""
    for line in report.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def _state(ended: Ended, check: Check) -> tuple[str, str]:
    lines = ended.output.strip().splitlines()[-_REASONS:]
    last = "\n".join(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in lines)
    if ended.code is None:
        what = ended.why or f"not finished after {check['timeout_seconds']} s"
        return FAILED, "\n".join(filter(None, (what, *_hang(ended.output), last)))
    if ended.code == 0:
        return PASSED, ""
    if ended.code in (EXIT_SKIPPED, EXIT_FAILED):
        state = SKIPPED if ended.code == EXIT_SKIPPED else FAILED
        return state, last or "it gives no reason"
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    return ERROR, f"ended with {how}\n{last}".strip()


def _innermost(output: str) -> list[str]:
    """Return where processes hang, a place for each."""
    return _CURRENT.findall(output) or _INNERMOST.findall(output)[-1:]


def _hang(output: str) -> list[str]:
    """Return where processes hang in words, the rarest place first: others wait for these."""
    places = Counter(_innermost(output))
    total = sum(places.values())
    if total == 1:
        return [f"it hangs in: {place}" for place in places]
    return [
        f"{number} of {total} processes {'hangs' if number == 1 else 'hang'} in: {place}"
        for place, number in sorted(places.items(), key=lambda item: item[1])
    ]


def judge(row: Mapping[str, Any], check: Check, architecture: str) -> dict[str, Any]:
    """Return a measured value with its threshold, and whether it holds (None if not judged).

    A value that is not a finite number misses its threshold, and is None in JSON.
    """
    name, value = row["measured"], row.get("value")
    number = _is_number(value)
    facts = {"name": name, "value": value if number else None, "holds": None}
    threshold = check.get("thresholds", {}).get(name)
    if threshold is None:
        return facts
    facts.update(threshold)
    of = threshold.get("architecture", "")
    if of and of != architecture:
        facts["unjudged"] = f"measured on {of}, but this is {architecture or 'no GPU'}"
    elif "minimum" in threshold:
        facts["holds"] = number and value >= threshold["minimum"]
    elif "maximum" in threshold:
        facts["holds"] = number and value <= threshold["maximum"]
    else:
        facts["unjudged"] = "it has no limit"
    return facts


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def held_to_limits(outcome: Outcome, check: Check) -> Outcome:
    """Return the outcome of a check: skipped if it has limits but none was judged.

    A check reports the reason for not measuring as ``unjudged``.
    """
    rows = check.get("thresholds", {}).values()
    limited = any("minimum" in row or "maximum" in row for row in rows)
    judged = any(row["holds"] is not None for row in outcome.measured)
    own = outcome.facts.pop("unjudged", "")
    if outcome.state != PASSED or not limited or judged:
        return outcome
    why = own or next((row["unjudged"] for row in outcome.measured if "unjudged" in row), "")
    outcome.state = SKIPPED
    outcome.reason = f"nothing was judged: {why or 'no measured value has a limit'}"
    return outcome


def missing(row: Mapping[str, Any]) -> str:
    """Return a message that a value misses its threshold."""
    name, unit, value = row["name"], row["unit"], row["value"]
    limit, word = (row["minimum"], "less") if "minimum" in row else (row["maximum"], "more")
    limits = f"{word} than {limit:g} {unit} ({row['source']})"
    if value is None:
        return f"{name} is not a number, but must be no {limits}"
    return f"{name} is {value:.4g} {unit}, {limits}"


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome of the processes of a check, with its rank.

    Processes that were ended because another one failed do not count.
    """
    every = sorted(outcomes, key=lambda one: one.rank)
    own = [one for one in every if not one.halted] or every
    worst = max(own, key=lambda one: OUTCOMES.index(one.state))
    if worst.state in (PASSED, SKIPPED) and len(own) < len(every):
        worst = next(one for one in every if one.halted)
        own = every
    alike = [one for one in own if one.state == worst.state and one.halted == worst.halted]
    several = len(every) > 1
    facts: dict[str, Any] = {}
    for one in reversed(every):
        facts.update(one.facts)
    return Outcome(
        worst.state,
        _reason(alike, every),
        output=worst.output if worst.state == PASSED else _outputs(every),
        rank=alike[0].rank,
        host=alike[0].host,
        halted=worst.halted,
        ranks=[_row(one) for one in every] if several else [],
        seconds=max(one.seconds for one in every),
        measured=[
            {**row, **({"rank": one.rank} if several else {})}
            for one in every
            for row in one.measured
        ],
        facts=facts,
    )


def _row(one: Outcome) -> dict[str, Any]:
    facts = {name: getattr(one, name) for name in ("rank", "host", "state", "halted")}
    return {**facts, "reason": one.reason.partition("\n")[0], "seconds": round(one.seconds, 2)}


def _outputs(every: Sequence[Outcome]) -> str:
    """Return the end of each process's output, below a line with its rank."""
    if len(every) == 1:
        return every[0].output
    share = OUTPUT // len(every)
    heads = (f"rank {one.rank}{f' on {one.host}' if one.host else ''}" for one in every)
    ends = (one.output[-share:].rstrip() for one in every)
    return "".join(f"{head}:\n{end}\n\n" for head, end in zip(heads, ends))


def _reason(alike: Sequence[Outcome], every: Sequence[Outcome]) -> str:
    first = alike[0]
    if not first.reason or len(every) == 1 or first.state == SKIPPED:
        return first.reason
    where = f" ({first.host})" if first.host and len({one.host for one in alike}) == 1 else ""
    what, _, rest = first.reason.partition("\n")
    facts = f"on rank {_ranks(alike)}{where} of {len(every)}: {what}"
    return "\n".join(filter(None, (facts, _apart(every) or rest)))


def _ranks(some: Sequence[Outcome]) -> str:
    return ", ".join(str(one.rank) for one in some[:8]) + (", …" if len(some) > 8 else "")


def _apart(every: Sequence[Outcome]) -> str:
    """Return where ranks hang, the place with the fewest ranks first: others wait for these."""
    places: dict[str, list[Outcome]] = {}
    for one in every:
        for place in dict.fromkeys(_innermost(one.output)):
            places.setdefault(place, []).append(one)
    ordered = sorted(places.items(), key=lambda item: len(item[1]))
    return "\n".join(
        f"rank{'s' if some[1:] else ''} {_ranks(some)} {'are' if some[1:] else 'is'} in: {place}"
        for place, some in ordered
    )
