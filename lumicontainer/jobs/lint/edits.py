"""Apply the edits of findings to the bytes of a script, and keep every other byte."""

import difflib
from collections.abc import Iterable, Sequence

from lumicontainer.jobs.lint.job import Edit
from lumicontainer.jobs.lint.rules import LintFinding


def apply_edits(data: bytes, findings: Iterable[LintFinding]) -> bytes:
    """Return the script with the edits of findings; of two that overlap, the first is made."""
    chosen: list[Edit] = []
    for finding in findings:
        if not any(_overlap(new, old) for new in finding.edits for old in chosen):
            chosen += finding.edits
    for edit in sorted(set(chosen), reverse=True):
        data = data[: edit.span.start] + edit.text.encode() + data[edit.span.end :]
    return data


def _overlap(new: Edit, old: Edit) -> bool:
    if new == old:
        return False
    if new.span == old.span:
        return True
    return new.span.start < old.span.end and old.span.start < new.span.end


def diff(file: str, before: bytes, after: bytes) -> str:
    """Return the difference as a unified diff that patch can apply."""
    old, new = (_lines(each) for each in (before, after))
    text = difflib.unified_diff(old, new, file, file)
    return "".join(
        each if each.endswith("\n") else f"{each}\n\\ No newline at end of file\n" for each in text
    )


def _lines(data: bytes) -> Sequence[str]:
    text = data.decode(errors="surrogateescape")
    parts = text.split("\n")
    lines = [f"{each}\n" for each in parts[:-1]]
    return lines + ([parts[-1]] if parts[-1] else [])
