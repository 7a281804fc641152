"""Verify an image: the checks of its file, those in it, and those of other start modes."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lumicontainer.api.report import Report
from lumicontainer.api.values import Check, OnProgress, SlurmJob, progress_of
from lumicontainer.building.checks.smoke import rerun_command
from lumicontainer.core.catalog import Catalog, open_catalog
from lumicontainer.core.model import Platform
from lumicontainer.engines import find_engine
from lumicontainer.errors import InputError, Problem
from lumicontainer.host.binds import takes_of_host
from lumicontainer.host.recipes import find_platform, locate_recipe
from lumicontainer.image import records, sif
from lumicontainer.inside.verify import options, report
from lumicontainer.inside.verify.outcome import ERROR, FAILED, PASSED, SKIPPED, Outcome, from_plain
from lumicontainer.jobs.follow import Listener
from lumicontainer.system.terminal.progress import Progress, Task
from lumicontainer.trust.signatures import Signer, read_signer
from lumicontainer.verify import host_checks, job, local, results
from lumicontainer.verify.subject import Row, chosen, in_other_ways, input_errors, read_subject

_COUNT = re.compile(r"^\[ *\d+/\d+\] ")
_NO_CHECK = "lumi-verify/"
"""Begins the names of problems that lumi-verify finds beside the checks."""
_NOT_IN_A_JOB = "other start modes of a container are checked by lumicontainer verify without a job"


@dataclass(frozen=True)
class VerifyRequest:
    """Hold which checks of an image run, and where."""

    image: Path
    level: str = "quick"
    names: Sequence[str] = ()
    only: Sequence[Check] | None = None
    platform: str | None = None
    recipes: Path | None = None
    recipe: str = ""
    """The recipe, by its name or file, that should now make the same image."""
    host_root: Path | None = None
    """The root folder of a host whose libraries the image should load."""
    required: str = ""
    job: SlurmJob | None = None
    signed_by: str = ""
    """The file of a public key in PEM, or the fingerprint of a PGP key, that should have signed it.

    An image that another key signed, or none, or that has changed, is not started.
    """

    @cached_property
    def named(self) -> tuple[str, Path | None]:
        """Return the name of the recipe, and the folder with documents of the user."""
        return locate_recipe(self.recipe, self.recipes)

    @cached_property
    def catalog(self) -> Catalog:
        """Return the catalog with the user's own folder."""
        return open_catalog(self.named[1])

    def require_valid(self) -> None:
        """Raise ``InputError`` for invalid arguments."""
        with input_errors():
            options.read_required_kinds(self.required)
        self.signer  # noqa: B018 - raises for another word
        name = self.named[0]
        sif.read_objects(self.image)
        if name:
            self.catalog.recipe(name)
        root = self.host_root
        if root and not root.is_dir():
            raise InputError(Problem("folder not found", str(root), hint="correct --host-root"))

    @cached_property
    def signer(self) -> Signer | None:
        """Return who should have signed the image, if somebody should."""
        return read_signer(self.signed_by) if self.signed_by else None

    @cached_property
    def host_request(self) -> host_checks.Request:
        """Return what the host checks."""
        root = self.host_root
        return host_checks.Request(
            self.image, self.catalog, recipe=self.named[0], root=root, signer=self.signer
        )

    @cached_property
    def damage(self) -> Row | None:
        """Return the check of the file's bytes or of its signature if it failed.

        Then no other check can run.
        """
        first = [row for row in host_checks.rows(self.host_request) if host_checks.is_first(row)]
        made = (host_checks.make(self.host_request, row) for row in first)
        # An image without recorded digests can still be checked.
        return next((row for row in made if row["state"] not in (PASSED, SKIPPED)), None)

    def due(self) -> list[Row]:
        """Return the checks to run; raise ``InputError`` if a name matches none."""
        if self.only is not None:
            return list(self.only)
        checks = read_subject(self.image).checks
        every = [*host_checks.rows(self.host_request), *checks, *in_other_ways(checks)]
        return chosen(every, self.level, self.names)

    def options(self) -> list[str]:
        """Return the options of the command line that decide the outcome of a check."""
        job = self.job or SlurmJob()
        # A partition alone means one node.
        nodes = job.nodes if self.job and (job.nodes > 1 or not job.partition) else None
        values = {
            "--platform": self.platform,
            "--nodes": nodes,
            "--partition": job.partition,
            "--account": job.account,
            "--recipe": self.recipe,
            "--host-root": self.host_root,
            "--recipes": self.recipes,
            "--signed-by": self.signed_by,
            "--require": self.required,
        }
        return [word for name, value in values.items() if value for word in (name, str(value))]


def checks(image: str | Path, *, level: str = "quick", names: Sequence[str] = ()) -> list[Check]:
    """Return the checks in an image that ``verify`` runs for this level or these names."""
    return chosen(read_subject(Path(image)).checks, level, names)


def verify(  # noqa: PLR0913 - callers pass them by name
    image: str | Path,
    *,
    level: str = "quick",
    names: Sequence[str] = (),
    only: Sequence[Check] | None = None,
    platform: str | None = None,
    recipes: Path | None = None,
    required: str = "",
    job: SlurmJob | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Run the checks of an image on this host, or in a Slurm job; return all results.

    ``level`` is quick, full or perf. ``names`` choose checks of any level, as ``lumicontainer
    verify -k``; ``only`` are the very ones, of those that ``checks`` returned. A check that is
    skipped for want of ``required``, such as "gpu,network", fails.

    Raises no error for a failed check: see ``Report.require``.
    """
    request = VerifyRequest(
        Path(image), level, names, only, platform, recipes, required=required, job=job
    )
    request.require_valid()
    return run_verification(request, on_progress)


def run_verification(request: VerifyRequest, on_progress: OnProgress | None = None) -> Report:
    """Run the checks and return all results."""
    head = {"file": request.image.absolute(), "level": request.level, "begun": time.time()}
    if request.damage:
        whole = results.joined(None, [], [request.damage], head=head)
        return Report(_with_commands(whole, request))
    due = request.due()
    with progress_of(on_progress) as progress:
        collected = _run(request, due, progress)
    subject = read_subject(request.image)
    whole = results.joined(subject, collected.parts, collected.rows, head=head)
    return Report(_with_commands(whole, request), collected.problem)


def _with_commands(result: Mapping[str, Any], request: VerifyRequest) -> dict[str, Any]:
    """Return results in which each check that failed has the command that runs it again."""
    words = request.options()
    rows = [
        {**row, "again": rerun_command(request.image, row["name"], words)}
        if row["state"] in (FAILED, ERROR) and not row["name"].startswith(_NO_CHECK)
        else row
        for row in result["checks"]
    ]
    return {**result, "checks": rows}


class _Reporter:
    """Report each check when it is done; all checks count together."""

    def __init__(self, progress: Progress, task: Task) -> None:
        self.progress = progress
        self._task = task
        self.waiting = task.waiting

    def line(self, line: str) -> None:
        """Report a line of lumi-verify, which counts only the checks of its own run."""
        text, counts = _COUNT.subn("", line)
        (self.progress.counted if counts else self.progress.say)(text)
        self._task.line(text)

    def done(self, row: Row) -> Row:
        """Report the result of a check; return it."""
        text = report.line(row, from_plain(row)).rstrip("\n")
        self.progress.counted(text)
        self._task.line(text)
        return row


def _run(request: VerifyRequest, due: Sequence[Row], progress: Progress) -> job.Collected:
    progress.expect(sum(not (request.job and "way" in check) for check in due))
    inside = [each for each in due if "file" in each and "way" not in each]
    ways = [each for each in due if "way" in each]
    with progress.work("verify") as task:
        reporter = _Reporter(progress, task)
        own = [check for check in due if host_checks.is_own(check)]
        rows = tuple(reporter.done(host_checks.make(request.host_request, check)) for check in own)
        if len(rows) == len(due):
            return job.Collected((), rows=rows)
        platform = find_platform(request.catalog, request.platform)
        run = _run_in_a_job if request.job else _run_here
        collected = run(request, platform, inside, ways, reporter)
    return replace(collected, rows=(*rows, *collected.rows))


def _run_in_a_job(
    request: VerifyRequest, platform: Platform, inside: list[Row], ways: list[Row], to: _Reporter
) -> job.Collected:
    where = request.job or SlurmJob()
    verify_job = job.Job(
        request.image,
        platform,
        find_engine(),
        job.steps(inside),
        **where._asdict(),
        required=request.required,
        binds=takes_of_host(records.resolved(request.image), platform),
        recipes=request.named[1],
    )
    listener = Listener(to.line, to.waiting)
    with to.progress.cancelling(listener.stop.set):
        collected = job.run(verify_job, listener)
    skipped = (results.row(each, Outcome(SKIPPED, _NOT_IN_A_JOB)) for each in ways)
    return replace(collected, rows=tuple(skipped))


def _run_here(
    request: VerifyRequest, platform: Platform, inside: list[Row], ways: list[Row], to: _Reporter
) -> job.Collected:
    host = local.host_for(request.image, platform, to.line)
    part, rows = local.run(
        host, inside, ways, required=request.required, progress=to.progress, done=to.done
    )
    return job.Collected((part,), rows=tuple(rows))
