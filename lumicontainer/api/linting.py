"""Judge batch scripts by the rules of a platform, and correct them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Platform
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.recipes import detect_platform
from lumicontainer.image import records, sif
from lumicontainer.jobs.lint import shellcheck
from lumicontainer.jobs.lint.edits import diff
from lumicontainer.jobs.lint.lint import fix_script, judge_script, without_ignored
from lumicontainer.jobs.lint.reading.parse import parse_script
from lumicontainer.jobs.lint.reading.text import LARGEST
from lumicontainer.jobs.lint.rules import LintFinding, ordered
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.files.write import write_whole


@dataclass(frozen=True)
class LintRequest:
    """Say which scripts are judged, for which image and platform."""

    scripts: Sequence[Path]
    image: Path | None = None
    """An image, whose versions decide which values of variables do harm."""
    platform: str | None = None
    """By default the image's; without one this host's, else that whose partitions scripts name."""
    recipes: Path | None = None
    """A folder of your own, which may define the platform."""

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """Return the record of the image; empty without one."""
        if self.image is None:
            return {}
        sif.read_objects(self.image)
        return records.resolved(self.image)

    def find_platform(self, contents: Mapping[Path, bytes]) -> tuple[Platform, bool]:
        """Return the platform of scripts, and whether nothing says that it is theirs."""
        catalog = open_catalog(self.recipes)
        named = self.platform or self.record.get("platform", {}).get("name")
        here = named or detect_platform(catalog)
        if named or catalog.platform(here).slurm.partitions:
            return catalog.platform(here), False
        platforms = [catalog.platform(each) for each in catalog.names("platform")]
        return _platform_of(contents, platforms, catalog.platform(here))

    def read_scripts(self) -> dict[Path, bytes]:
        """Read the scripts; raise ``InputError`` with all that cannot be read."""
        contents, problems = {}, []
        for path in dict.fromkeys(self.scripts):
            try:
                with open_regular(path) as file:
                    contents[path] = file.read(LARGEST + 1)
            except OSError as error:
                why = error.strerror or str(error)
                problems.append(Problem("cannot read the script", str(path), why))
        if problems:
            raise InputError(*problems)
        return contents


def _platform_of(
    contents: Mapping[Path, bytes], platforms: Sequence[Platform], default: Platform
) -> tuple[Platform, bool]:
    """Return the platform whose partitions most scripts name, else the first with partitions."""
    named = [name for path, data in contents.items() for name in _partitions_of(path, data)]
    rows = [(each, {row.name for row in each.slurm.partitions}) for each in platforms]
    rows = [row for row in rows if row[1]] or [(default, set())]
    platform, known = max(rows, key=lambda row: sum(name in row[1] for name in named))
    return platform, known.isdisjoint(named)


def _partitions_of(path: Path, data: bytes) -> list[str]:
    """Return the partitions that a script names; none if it is not text."""
    with suppress(InputError):
        options = parse_script(str(path), data).directives
        return [
            name for each in options if each.name == "partition" for name in each.text.split(",")
        ]
    return []


class LintResult(NamedTuple):
    """Hold what was found in scripts."""

    findings: Sequence[LintFinding]
    platform: Platform
    assumed: bool
    """Whether nothing says that the scripts are for this platform."""
    scripts: int
    shellcheck: bool
    """Whether ShellCheck is installed, and was asked too."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer lint --json`` prints it."""
        return {
            "platform": self.platform.name,
            "assumed": self.assumed,
            "scripts": self.scripts,
            "shellcheck": self.shellcheck,
            "findings": [each.as_data() for each in self.findings],
        }


def lint(request: LintRequest) -> LintResult:
    """Judge scripts; raise ``InputError`` with all that are not text, or cannot be read."""
    contents = request.read_scripts()
    platform, assumed = request.find_platform(contents)
    findings: list[LintFinding] = []
    problems: list[Problem] = []
    own: dict[Path, list[LintFinding]] = {}
    for path, data in contents.items():
        try:
            own[path] = judge_script(str(path), data, platform, request.record)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)
    # ShellCheck takes minutes for some of the scripts that were refused.
    installed = shellcheck.is_installed()
    by_file = _group(shellcheck.check_scripts(contents)) if installed else {}
    for path, data in contents.items():
        others = without_ignored(by_file.get(str(path), []), parse_script(str(path), data))
        findings += ordered([*own[path], *others])
    return LintResult(findings, platform, assumed, len(contents), installed)


def _group(findings: Sequence[LintFinding]) -> dict[str, list[LintFinding]]:
    grouped: dict[str, list[LintFinding]] = {}
    for each in findings:
        grouped.setdefault(each.place.file, []).append(each)
    return grouped


def fix_scripts(request: LintRequest, *, write: bool) -> str:
    """Correct scripts as far as their lines are understood; return the unified diff.

    Without ``write`` the files stay as they are. A file keeps its mode, and a link leads to the new
    content.
    """
    contents, text = request.read_scripts(), ""
    platform, _ = request.find_platform(contents)
    changes: dict[Path, bytes] = {}
    problems: list[Problem] = []
    for path, data in contents.items():
        try:
            fixed = fix_script(str(path), data, platform, request.record)
        except InputError as error:
            problems += error.problems
            continue
        if fixed != data:
            text += diff(str(path), data, fixed)
            changes[path] = fixed
    if problems:
        raise InputError(*problems)
    for path, fixed in changes.items() if write else ():
        target = path.resolve()
        write_whole(target, fixed, mode=target.stat().st_mode & 0o7777)
    return text
