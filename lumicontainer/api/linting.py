"""Judge batch scripts by the rules of a platform, and correct them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.catalog import Catalog, open_catalog
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
    """By default the image's; without one this host's, or the first with partitions of Slurm."""
    recipes: Path | None = None
    """A folder of your own, which may define the platform."""

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """Return the record of the image; empty without one."""
        if self.image is None:
            return {}
        sif.read_objects(self.image)
        return records.resolved(self.image)

    def find_platform(self) -> Platform:
        """Read the platform."""
        catalog = open_catalog(self.recipes)
        named = self.record.get("platform", {}).get("name")
        return catalog.platform(self.platform or named or _platform_of_jobs(catalog))

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


def _platform_of_jobs(catalog: Catalog) -> str:
    here = detect_platform(catalog)
    names = [here, *(each for each in catalog.names("platform") if each != here)]
    return next((each for each in names if catalog.platform(each).slurm.partitions), here)


class LintResult(NamedTuple):
    """Hold what was found in scripts."""

    findings: Sequence[LintFinding]
    platform: Platform
    scripts: int
    shellcheck: bool
    """Whether ShellCheck is installed, and was asked too."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer lint --json`` prints it."""
        return {
            "platform": self.platform.name,
            "scripts": self.scripts,
            "shellcheck": self.shellcheck,
            "findings": [each.as_data() for each in self.findings],
        }


def lint(request: LintRequest) -> LintResult:
    """Judge scripts; raise ``InputError`` with all that are no text, or cannot be read."""
    contents, platform = request.read_scripts(), request.find_platform()
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
    return LintResult(findings, platform, len(contents), installed)


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
    platform, text = request.find_platform(), ""
    changes: dict[Path, bytes] = {}
    problems: list[Problem] = []
    for path, data in request.read_scripts().items():
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
