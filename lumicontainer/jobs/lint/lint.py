"""Judge batch scripts by all rules."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lumicontainer.core.model import Platform
from lumicontainer.errors import did_you_mean
from lumicontainer.jobs.lint.checks import cores, cost, ranks, shell, slurm, storage, variables
from lumicontainer.jobs.lint.edits import apply_edits
from lumicontainer.jobs.lint.job import BatchJob, Hit
from lumicontainer.jobs.lint.reading.model import Script, Span
from lumicontainer.jobs.lint.reading.parse import parse_script
from lumicontainer.jobs.lint.rules import LintFinding, ordered, rules, write_finding
from lumicontainer.system.programs.bash import find_syntax_fault

_MODULES = (slurm, cost, cores, ranks, variables, storage, shell)
CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    name: check for module in _MODULES for name, check in module.CHECKS.items()
}
"""The predicate of each rule."""
SYNTAX, IGNORE = "script-syntax", "unknown-ignore"
"""The rules that bash, and the comments for this program, decide."""
_ROUNDS = 5
"""A fix may bring a line into reach of another rule."""


def judge_script(
    file: str, data: bytes, platform: Platform, record: Mapping[str, Any] | None = None
) -> list[LintFinding]:
    """Return what the rules say of a script; raise ``InputError`` if it is not text."""
    job = BatchJob(parse_script(file, data), platform, record or {})
    # A grammar knows less than bash; what bash cannot read has no last command.
    fault = None if job.script.is_understood else _syntax_fault(data)
    checks = {name: each for name, each in CHECKS.items() if not fault or name not in shell.CHECKS}
    findings = [
        write_finding(job.script, rules()[name], hit)
        for name, check in checks.items()
        for hit in check(job)
    ]
    findings += _about_text(job.script, fault)
    return ordered([each for each in _distinct(findings) if not _is_ignored(each, job.script)])


def _about_text(script: Script, fault: tuple[int, str] | None) -> Iterator[LintFinding]:
    if fault:
        line, message = fault
        offset = _line_start(script, line)
        yield write_finding(
            script, rules()[SYNTAX], Hit(Span(offset, offset), {"message": message})
        )
    for line, names in script.ignores.items():
        offset = _line_start(script, line)
        comment = script.data[offset:].partition(b"\n")[0]
        for name in sorted(names - rules().keys()):
            if name.encode() not in comment or (name.startswith("SC") and name[2:].isdigit()):
                continue
            facts = {"name": name, "advice": did_you_mean(name, rules())}
            yield write_finding(script, rules()[IGNORE], Hit(Span(offset, offset), facts))


def _line_start(script: Script, line: int) -> int:
    return sum(len(each) + 1 for each in script.data.split(b"\n")[: line - 1])


def _distinct(findings: Sequence[LintFinding]) -> Iterator[LintFinding]:
    seen = set()
    for each in findings:
        if (each.rule, each.place) not in seen:
            seen.add((each.rule, each.place))
            yield each


def _is_ignored(finding: LintFinding, script: Script) -> bool:
    return finding.rule in script.ignores.get(finding.place.line, ())


def without_ignored(findings: Sequence[LintFinding], script: Script) -> list[LintFinding]:
    """Return findings of other programs without those that a comment switches off."""
    return [each for each in findings if not _is_ignored(each, script)]


def fix_script(
    file: str, data: bytes, platform: Platform, record: Mapping[str, Any] | None = None
) -> bytes:
    """Return a script with all that is understood corrected."""
    for _ in range(_ROUNDS):
        fixed = apply_edits(data, judge_script(file, data, platform, record))
        if fixed == data or _is_worse(file, data, fixed):
            return data
        data = fixed
    return data


def _is_worse(file: str, before: bytes, after: bytes) -> bool:
    """Return whether bash reads a script that it cannot read after the change."""
    if parse_script(file, after).is_understood:
        return False
    return _syntax_fault(after) is not None and _syntax_fault(before) is None


def _syntax_fault(data: bytes) -> tuple[int, str] | None:
    return find_syntax_fault(data.replace(b"\r\n", b"\n"))
