"""Read a check: a script, and the comment in it that says what it proves and what it needs.

Files beside checks that are none, but something these share, have names that begin with ``_``.

The comment is a block in the form of Python's inline script metadata (PEP 723), of the type
``check``, and holds YAML::

    # /// check
    # summary: torch computes on the GPU
    # needs: {gpus: 1}
    # ///
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from lumicontainer.core.model import Check, CheckNeeds, Checks, LayerFile, Threshold
from lumicontainer.core.nodes import Node, Scalar
from lumicontainer.core.schema import readers, validators
from lumicontainer.core.schema.yaml_nodes import parse
from lumicontainer.errors import Place, Problems

FOLDER = "checks/"
IMAGE, HOST = "image", "host"
"""The owners of the checks that every image has, and of those that are made of it from without."""
LEVELS = ("quick", "full", "perf")
"""What each level runs, the lower ones too: seconds, minutes, and what measures speed."""
RUNS = ("once", "node", "ranks")
"""On one process, on one of each node, or as ranks that work together."""
WAYS = ("exec", "run", "shell", "cleanenv", "containall", "no-home", "umask")
"""The ways of starting a container in which a check can be asked to hold."""
SUFFIXES = (".py", ".sh")

BEGIN, _END = "# /// check", "# ///"
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


@readers.described({"type": "number", "minimum": 0})
def _number(node: Node, problems: Problems) -> float | None:
    if isinstance(node, Scalar) and node.plain and _NUMBER.fullmatch(node.text):
        return float(node.text)
    problems.add("a number is wanted here", node.place, hint="write it as 125 or 23.75")
    return None


_THRESHOLD = readers.record(
    "a threshold",
    {
        "unit": readers.line,
        "minimum": _number,
        "maximum": _number,
        "reference": _number,
        "architecture": validators.name,
        "source": readers.line,
    },
    required=("unit", "source"),
)
_NEEDS = readers.record(
    "needs",
    {
        "gpus": readers.integer,
        "architecture": validators.name,
        "nodes": readers.integer,
        "tasks": readers.integer,
        "network": validators.name,
        "mpi": readers.boolean,
    },
)
CHECK = readers.record(
    "a check",
    {
        "summary": readers.line,
        "level": readers.choice(LEVELS),
        "runs": readers.choice(RUNS),
        "timeout_seconds": readers.integer,
        "needs": _NEEDS,
        "thresholds": readers.mapping(_THRESHOLD, key=validators.variable),
        "start_modes": readers.sequence(readers.choice(WAYS)),
        "hint": readers.line,
    },
    required=("summary", "hint"),
)


def read_checks(files: Sequence[LayerFile], owner: str, where: str, problems: Problems) -> Checks:
    """Read the checks below a folder whose files are ``files``, and which is shown as ``where``.

    ``owner`` is the layer that they belong to. Notes every problem of their comments.
    """
    there = tuple(file for file in files if file.name.startswith(FOLDER))
    found = (_read(file, owner, f"{where}/{file.name}", problems) for file in there)
    checks = tuple(check for check in found if check)
    _refuse_twins(checks, where, problems)
    return Checks(there, checks)


def is_check(name: str) -> bool:
    """Return whether a file of this name, below a layer's folder, is a check."""
    suffix = PurePosixPath(name).suffix
    return name.startswith(FOLDER) and suffix in SUFFIXES and "/_" not in name


def _refuse_twins(checks: Sequence[Check], where: str, problems: Problems) -> None:
    """Note checks that have one name in one image: those of two accelerators are in no image."""
    for number, check in enumerate(checks):
        for other in checks[:number]:
            if check.name != other.name:
                continue
            folders = {PurePosixPath(each.file.name).parent for each in (check, other)}
            if len(folders) == 1 or PurePosixPath(FOLDER) in folders:
                problems.add(
                    f"two checks are called '{check.name}'",
                    Place(f"{where}/{check.file.name}"),
                    why=f"{where}/{other.file.name} is so, too: a name is a file's without suffix",
                    hint="give one of the files another name",
                )


def _read(file: LayerFile, owner: str, path: str, problems: Problems) -> Check | None:
    if not is_check(file.name):
        return None
    text = _commented(file.content.decode("utf-8", "replace"))
    if text is None:
        why = f"it has no comment from '{BEGIN}' to '{_END}'"
        hint = f"begin with: {BEGIN}, # summary: …, # hint: …, {_END}"
        problems.add("a check does not say what it proves", Place(path), why=why, hint=hint)
        return None
    before = len(problems.found)
    root = parse(text, path, problems)
    values = CHECK(root, problems) if root else None
    if values is None or root is None or len(problems.found) > before:
        return None
    thresholds = {
        name: _threshold(row, root.place, problems)
        for name, row in (values.get("thresholds") or {}).items()
    }
    if len(problems.found) > before:
        return None
    return Check(
        name=f"{owner}/{PurePosixPath(file.name).stem}",
        file=file,
        summary=values["summary"],
        level=values.get("level", LEVELS[0]),
        runs=values.get("runs", RUNS[0]),
        timeout_seconds=values.get("timeout_seconds", 60),
        needs=CheckNeeds(**(values.get("needs") or {})),
        thresholds=thresholds,
        start_modes=values.get("start_modes", ()),
        hint=values["hint"],
    )


def _threshold(row: dict[str, Any], place: Place, problems: Problems) -> Threshold:
    limits = ("minimum" in row) + ("maximum" in row)
    if limits == 2 or not (limits or "reference" in row):
        hint = "add minimum or maximum"
        why = "without either there is a reference, and nothing is judged"
        problems.add("a threshold has either a minimum or a maximum", place, why=why, hint=hint)
    return Threshold(**row)


def _commented(text: str) -> str | None:
    """Return what the comment holds, each line in its place; None where there is no comment."""
    kept: list[str] = []
    lines = text.splitlines()
    if BEGIN not in lines:
        return None
    begin = lines.index(BEGIN)
    for line in lines[begin + 1 :]:
        if line == _END:
            return "\n" * (begin + 1) + "\n".join(kept) + "\n"
        if line != "#" and not line.startswith("# "):
            return None
        # A blank keeps the columns as they are in the file.
        kept.append(f"  {line[2:]}")
    return None
