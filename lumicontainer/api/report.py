"""The results of all checks of an image, and the files of them that others read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lumicontainer.api.values import Check
from lumicontainer.errors import ExaminedError, InputError, JobError, Problem
from lumicontainer.inside.verify import report
from lumicontainer.inside.verify.outcome import ERROR, FAILED
from lumicontainer.verify import html, results
from lumicontainer.verify.identity import add_identity
from lumicontainer.verify.subject import output_errors


@dataclass(frozen=True)
class Report:
    """Hold the results of all checks."""

    data: Mapping[str, Any]
    """The image, the host, each check and how many have each state."""
    problem: Problem | None = None
    """Why the Slurm job failed, if it did; its checks are in error."""

    @property
    def checks(self) -> Sequence[Check]:
        """Return each check with its ``state``: passed, failed, skipped or error."""
        checks: Sequence[Check] = self.data["checks"]
        return checks

    @property
    def passed(self) -> bool:
        """Return whether no check failed and none is in error."""
        return results.passed(self.data)

    def require(self) -> None:
        """Raise ``JobError`` if the job failed, and ``ExaminedError`` if a check did."""
        if self.problem:
            raise JobError(self.problem)
        failed = [
            Problem(f"the check '{row['name']}' {row['state']}", "", row["reason"], row["hint"])
            for row in self.checks
            if row["state"] in (FAILED, ERROR)
        ]
        if failed:
            raise ExaminedError(*failed)

    def as_data(self) -> Mapping[str, Any]:
        """Return it as ``lumicontainer verify --json`` prints it; the first call reads the image.

        It has the sha256 of the image, and the engine of this host.
        """
        return self._identified

    def write_files(self, junit: str = "", html: str = "") -> None:
        """Write the files that are named; raise ``InputError`` with those that cannot be."""
        problems: list[Problem] = []
        for file, write in ((junit, self.write_junit), (html, self.write_html)):
            try:
                if file:
                    write(file)
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(*problems)

    def write_junit(self, file: str) -> None:
        """Write it as JUnit XML; ``-`` is stdout. Raises ``InputError`` if the file cannot be."""
        with output_errors(file):
            report.write(file, report.as_junit(self.data))

    def write_html(self, file: str) -> None:
        """Write ``as_data`` as an HTML page with charts, in the way of ``write_junit``."""
        with output_errors(file):
            report.write(file, html.page(self._identified))

    @cached_property
    def _identified(self) -> Mapping[str, Any]:
        return add_identity(self.data)
