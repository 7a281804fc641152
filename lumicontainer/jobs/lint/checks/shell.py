"""Judge what the shell does with the success of a job."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping

from lumicontainer.jobs.lint.job import BatchJob, Edit, Hit
from lumicontainer.jobs.lint.reading.model import ScriptCommand, Span, Start, Statement

_QUIET = ("echo", "printf", "date", "true", ":", "sync", "sleep", "rm", "ls", "sacct", "seff")
_ARITHMETIC = re.compile(r"\(\((?:\w+\+\+|\w+--)\)\)|let\s+\w+(?:\+\+|--)")
_STATUS = re.compile(r"\$\?|\$\{?PIPESTATUS")


def _sets(job: BatchJob, letter: str, word: str) -> bool:
    """Return whether the script switches an option of the shell on, also on its first line."""
    first = job.script.data.partition(b"\n")[0].decode(errors="replace")
    if re.search(rf"\s-\w*{letter}" if letter else r"$^", first):
        return True
    for command in job.script.calls("set"):
        words = [each.text for each in command.words[1:]]
        if word in words or (letter and any(re.fullmatch(rf"-\w*{letter}\w*", w) for w in words)):
            return True
    return False


def _exits(job: BatchJob) -> bool:
    return _sets(job, "e", "errexit")


def _steps(statement: Statement) -> Iterator[Start]:
    yield from (each for each in statement.starts if any(p.kind == "srun" for p in each.parts))


def _piped(job: BatchJob) -> Iterator[Hit]:
    if _sets(job, "", "pipefail") or "PIPESTATUS" in job.script.data.decode(errors="replace"):
        return
    for start in job.script.starts:
        command = start.command
        is_step = any(each.kind == "srun" for each in start.parts)
        if is_step and command.context.piped and not _is_read(command):
            yield Hit(command.words[0].span)


def _is_read(command: ScriptCommand) -> bool:
    return bool(command.context.captured or command.context.start)


def _status_lost(job: BatchJob) -> Iterator[Hit]:
    statements = [each for each in job.script.statements if each.names or each.starts]
    if _exits(job) or not statements or statements[-1].names[-1:] == ("exit",):
        return
    last = max((i for i, each in enumerate(statements) if any(_steps(each))), default=None)
    if last is None or last == len(statements) - 1 or statements[last].background:
        return
    rest = statements[last + 1 :]
    text = " ".join(each.raw for each in (statements[last], *rest))
    if (
        all(each.names and all(name in _QUIET for name in each.names) for each in rest)
        and not _STATUS.search(text)
        and "||" not in text
    ):
        start = next(_steps(statements[last]))
        yield Hit(start.command.words[0].span, {"last": rest[-1].names[-1]})


def _status_late(job: BatchJob) -> Iterator[Hit]:
    if not _exits(job):
        return
    statements = job.script.statements
    for before, after in itertools.pairwise(statements):
        if any(_steps(before)) and not before.background and "||" not in before.raw:
            match = _STATUS.search(after.raw)
            if match and not re.match(r"\s*(if|!|while)\b", before.raw) and _plus_e(job, before):
                at = after.span.start + len(after.raw[: match.start()].encode())
                yield Hit(Span(at, at + 2))


def _plus_e(job: BatchJob, before: Statement) -> bool:
    """Return whether ``set -e`` still counts at a statement."""
    state = True
    for each in job.script.statements:
        if each.span.start >= before.span.start:
            return state
        if re.match(r"set \+\w*e", each.raw):
            state = False
        elif re.match(r"set -\w*e", each.raw):
            state = True
    return state


def _arithmetic(job: BatchJob) -> Iterator[Hit]:
    if not _exits(job):
        return
    for statement in job.script.statements:
        match = _ARITHMETIC.fullmatch(statement.raw.strip())
        if match:
            yield Hit(statement.span, {"command": statement.raw}, _increment(statement))


def _increment(statement: Statement) -> tuple[Edit, ...]:
    match = re.fullmatch(r"\(\((\w+)(\+|-)[+-]\)\)", statement.raw.strip())
    if match is None:
        return ()
    name, sign = match.groups()
    return (Edit(statement.span, f"{name}=$(({name} {sign} 1))"),)


def _background(job: BatchJob) -> Iterator[Hit]:
    if any(job.script.calls("wait")):
        return
    for start in job.script.starts:
        command = start.command
        if (
            any(p.kind == "srun" for p in start.parts)
            and command.context.background
            and not command.context.start
        ):
            yield Hit(command.words[0].span)


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "pipe-hides-failure": _piped,
    "status-lost": _status_lost,
    "status-after-set-e": _status_late,
    "arithmetic-with-set-e": _arithmetic,
    "background-without-wait": _background,
}
