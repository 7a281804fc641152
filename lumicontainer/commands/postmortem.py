"""``lumicontainer postmortem``: find out why a job died."""

import argparse
import sys

from lumicontainer import api
from lumicontainer.api import Postmortem
from lumicontainer.commands import context
from lumicontainer.errors import EXAMINED_FAILED, OK
from lumicontainer.jobs.postmortem.ranks import listed
from lumicontainer.jobs.postmortem.verdict import CAUSE, NONE
from lumicontainer.system.terminal.output import line, print_folded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    summary = "the number of a Slurm job, a folder of logs (lumi-entry --log-dir), or both"
    parser.add_argument("subjects", metavar="JOB|FOLDER", nargs="+", help=summary)
    context.add_options(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    """Print the cause; the exit code is 1 if the job failed."""
    result = api.postmortem(*arguments.subjects)
    context.print_result(result, arguments, _print_verdict)
    return OK if result.verdict.outcome == NONE else EXAMINED_FAILED


def _print_verdict(result: Postmortem) -> None:
    verdict = result.verdict
    sys.stdout.write(f"{_heading(result)}\n")
    rows = [
        ("where", verdict.place),
        ("log", verdict.log),
        *(("said", each) for each in verdict.evidence),
        ("then", verdict.then),
        ("hint", verdict.hint if verdict.outcome == CAUSE else ""),
        ("source", verdict.source),
        ("read", _read(result)),
        ("unread", _others(result)),
        *(("unread", each) for each in result.unreadable[:5]),
    ]
    for label, text in rows:
        if text:
            print_folded(f"{label:>7}: ", line(text))


def _heading(result: Postmortem) -> str:
    verdict = result.verdict
    if verdict.outcome == NONE and verdict.evidence:
        return "nothing in what was read proves that the job failed, but it says:"
    if verdict.outcome == NONE:
        return "no failure in what was read"
    if verdict.outcome != CAUSE:
        return "the job failed, and the cause is not known"
    nodes = f" on {', '.join(verdict.nodes)}" if verdict.nodes else ""
    if not verdict.ranks:
        return f"the job{nodes}: {verdict.cause}"
    noun = "rank" if len(verdict.ranks) == 1 else "ranks"
    return f"{noun} {listed(verdict.ranks)}{nodes}: {verdict.cause}"


def _read(result: Postmortem) -> str:
    parts = [f"{result.logs} logs of {result.ranks} ranks", f"{result.dumps} flight-recorder dumps"]
    parts += [f"Slurm's state {result.state}"] if result.state else []
    return "; ".join(parts)


def _others(result: Postmortem) -> str:
    """Return which other jobs have files in the same folders."""
    jobs = result.other_jobs
    if not jobs:
        return ""
    named = f"{', '.join(jobs[:_SHOWN])}{', …' if jobs[_SHOWN:] else ''}"
    noun = "job" if len(jobs) == 1 else "jobs"
    hint = f"lumicontainer postmortem {jobs[-1]} FOLDER"
    return f"files of {noun} {named}; to read those of one: {hint}"


_SHOWN = 10
