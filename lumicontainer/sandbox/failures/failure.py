"""Report why a step failed, and keep its state for inspection."""

import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer.constants import STAGE
from lumicontainer.core.model.source import FOLDER
from lumicontainer.core.plan.steps import STEP_ENVIRONMENT
from lumicontainer.errors import (
    DownloadError,
    HostError,
    InputError,
    Problem,
    SpaceError,
    StepError,
)
from lumicontainer.sandbox.builder import Builder
from lumicontainer.sandbox.failures import missing_packages
from lumicontainer.sandbox.step_run import STAGED, StepRun
from lumicontainer.sandbox.workspace import FAILED
from lumicontainer.system import budget, process, units
from lumicontainer.system.files import no_links
from lumicontainer.system.os_errors import FULL, TOO_LARGE, file_size_hint
from lumicontainer.system.programs.output_log import read_end
from lumicontainer.system.programs.patience import LARGEST, LONGEST, SILENCE
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.reported import reported_problem

_NOT_DOWNLOADED = re.compile(
    r"(?m)^error: the base is made of other packages than its lock says"
    r"|^ *hint: make https?://\S+ reachable"
    r"|^FATAL: .* conveyor failed to get:"
    r"|^E: (?:Unable to (?:locate package|fetch)|Failed to fetch) "
    r"|^E: Version '[^'\n]*' for '[^'\n]*' was not found"
    r"|^ERROR: (?:No matching distribution found|THESE PACKAGES DO NOT MATCH THE HASHES)"
    r"|^ERROR: Could not install packages due to an OSError: HTTPS?ConnectionPool"
    r"|^ *ERROR: HTTP error [0-9]+ while getting "
)
"""Messages in the last lines of a step that report a failed download: of the base's own check, a
layer's script, the engine (its conveyor downloads a base), apt and pip. Their exit codes do not say
so."""
_VERSION_GONE = re.compile(r"(?m)^E: Version '[^'\n]*' for '[^'\n]*' was not found")
_NEW_LOCK = "write a new lock, or name a mirror of the lock's time: LUMICONTAINER_MIRROR=URL"
_NO_SPACE = (*FULL, *TOO_LARGE)
_NOT_KEPT = 'echo "passwords and secrets were not kept: they are *** here" >&2\n'
OPENER = "shell"


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return process.last_lines(read_end(log))


def no_space(builder: Builder, text: str, *, output: Path | None = None) -> SpaceError | None:
    """Return the error for a full disk or quota that ``text`` reports; else None."""
    lines = [line for line in text.splitlines() if any(map(line.__contains__, _NO_SPACE))]
    if not lines:
        return None
    why = lines[-1].strip().removeprefix("error: ")
    if any(words in why for words in TOO_LARGE):
        what = "cannot write a file as large as the build needs"
        return SpaceError(Problem(what, why=why, hint=file_size_hint()))
    places = {"the temporary folder": builder.place.root.parent, "the cache": builder.cache.root}
    if output is not None:
        places["the image's folder"] = output.parent
    name, where = _full(places, why)
    options = "LUMICONTAINER_TMPDIR, LUMICONTAINER_CACHE or --output"
    hint = f"free some space, or name other places with {options}"
    return SpaceError(Problem(f"{name} is full", str(where), why, hint))


def _full(places: Mapping[str, Path], why: str) -> tuple[str, Path]:
    """Return the place that a message names, the deepest one first; else the fullest place.

    The free bytes of a file system do not show a quota.
    """
    _, _, written = why.rpartition(" -> ")  # Before it, Python names the source of a copy.

    def is_named(where: Path) -> bool:
        return re.search(rf"(?<![\w.-]){re.escape(str(where))}(?![\w.-])", written) is not None

    named = [each for each in places.items() if is_named(each[1])]
    if named:
        return max(named, key=lambda each: len(str(each[1])))
    return min(places.items(), key=lambda each: shutil.disk_usage(each[1]).free)


def step_failure(run: StepRun, status: int) -> InputError | SpaceError | StepError:
    """Return the error for a step that ended with ``status``."""
    log = run.builder.place.log(run.name)
    if full := no_space(run.builder, tail(log), output=run.output):
        return full
    hint, why = _hint(run, log), tail(log)
    failed = f"the step '{run.name}' failed ({process.describe(status)})"
    not_downloaded = status == DownloadError.code or _NOT_DOWNLOADED.search(why)
    if own := reported_problem(why):
        # The script knows more than the first complaint of a program that it called.
        problems = [own, Problem(failed, hint=hint)]
    elif missing := _absent(run, log.read_text()):
        return InputError(*missing, Problem(f"the step '{run.name}' failed", hint=hint))
    else:
        more = f"{_NEW_LOCK}\n" if _VERSION_GONE.search(why) else ""
        problems = [Problem(failed, why=why, hint=f"{more}{hint}")]
    return DownloadError(*problems) if not_downloaded else StepError(*problems)


def _absent(run: StepRun, text: str) -> list[Problem]:
    name, missing = run.name.partition(": ")[0], missing_packages.absent(text)
    names = no_links.packages_listed(run.sandbox / "tree") if missing else ()
    layers = [each for each in run.builder.plan.resolved.included() if each.name == name]
    problems = (missing_packages.problem_of(each, of, names) for of in layers for each in missing)
    return [each for each in problems if each]


def silent_failure(run: StepRun, report: str) -> StepError:
    """Return the error for a silent step that was ended; add the reason to its log."""
    minutes = f"{(run.builder.patience.silence or 0) / 60:g} min"
    what = f"the step '{run.name}' printed nothing for {minutes} and was ended"
    logged = f"ended after {minutes} without output"
    return _log_failure(run, what, logged, report, f"if it needs longer: {SILENCE.hint()}")


def overdue_failure(run: StepRun, report: str) -> StepError:
    """Return the error for a step that was ended because it took too long; log the reason."""
    hours = f"{(run.builder.patience.total or 0) / 3600:g} h"
    what = f"the step '{run.name}' was not finished after {hours} and was ended"
    more = f"if it needs longer: {LONGEST.hint()}"
    return _log_failure(run, what, f"ended after {hours}", report, more)


def excess_failure(run: StepRun, report: str) -> StepError:
    """Return the error for a step that was ended because it wrote too much; log the reason."""
    size = units.size(int(run.builder.patience.most or 0))
    what = f"the step '{run.name}' wrote more than {size} and was ended"
    more = f"if it has to: {LARGEST.hint()}"
    return _log_failure(run, what, f"ended after it wrote {size}", report, more)


def _log_failure(run: StepRun, what: str, logged: str, report: str, more: str) -> StepError:
    log = run.builder.place.log(run.name)
    last = tail(log)
    with log.open("a") as file:
        file.write(f"{logged}; its processes:\n{report}\n")
    why = "\n".join(filter(None, (last, "its processes at that time:", report)))
    return StepError(Problem(what, why=why, hint=f"{_hint(run, log)}\n{more}"))


def _hint(run: StepRun, log: Path) -> str:
    """Keep the state of a failed step, or only its log; return the hint how to inspect it."""
    hint = f"read the whole log: {log}"
    if no_links.is_folder(run.staged):
        try:
            return f"{hint}\n{keep(run.builder, run.name, log, _shell(run))}"
        except HostError as error:
            problem = error.problems[0]
            hint = f"{hint}\nthe state is not kept: {problem.what}:\n{problem.why}"
    run.builder.place.keep_logs = True
    return hint


def leak_failure(run: StepRun, names: Sequence[str]) -> StepError:
    """Return the error for a step that wrote a secret into its result."""
    why = "the files of a step are kept and shipped"
    hint = 'use the file in "$secrets" without copying its content'
    what = f"the step '{run.name}' left a secret in its files"
    return StepError(Problem(what, "\n".join(names), why, hint))


def left_failure(run: StepRun, names: Sequence[str]) -> StepError:
    """Return the error for a step that left other files than wheels."""
    why = "only wheels are kept, and no links, which may lead to files of the host"
    what, hint = f"the step '{run.name}' left unexpected files", 'put only wheels into "$wheels"'
    return StepError(Problem(what, "\n".join(map(ascii, names)), why, hint))


def keep(builder: Builder, step: str, log: Path, command: Sequence[str]) -> str:
    """Keep the state of a failed build; ``command`` opens a shell in it. Return the hint.

    Raises ``HostError`` if a secret may be left in it; then it is not kept.
    """
    place, recipe = builder.place, builder.plan.resolved.recipe.name
    _scrub(builder)
    facts = {"recipe": recipe, "step": step, "time": time.time(), "log": str(log)}
    (place.root / FAILED).write_text(json.dumps(facts))
    opener = place.root / OPENER
    opener.write_text(f"#!/bin/sh\nexec {shlex.join(command)}\n")
    opener.chmod(0o700)
    place.keep = True
    shell = f"open a shell in the failed step: lumicontainer debug {recipe}"
    return f"{shell}\n(it is kept until the next build of this recipe)"


def _scrub(builder: Builder) -> None:
    if not masking.searched():
        return
    words = [str(builder.place.root), str(int(builder.began) - 1)]
    program = process.module_command("lumicontainer.sandbox.failures.scrub", *words)
    # A namespace of root could not change root's own files.
    start = builder.runtime.as_root() if os.getuid() != 0 else []
    try:
        process.capture([*start, *program], stdin=masking.dumped(), limits=budget.FILES)
    except HostError as error:
        problem = error.problems[0]
        what = "secrets cannot be removed from the build's folder"
        raise HostError(Problem(what, why=problem.why or problem.what)) from error


def _shell(run: StepRun) -> list[str]:
    """Return the command that opens a shell with the step's files, variables and folder."""
    scripts = "$(ls install*.sh compile*.sh 2>/dev/null)"
    settings = f"""\
for file in /tmp/{STAGED}/site.sh {STAGE}/values.sh; do
    if [ -e "$file" ]; then . "$file"; fi
done
{STEP_ENVIRONMENT}export wheels=/tmp/{STAGED}/wheels sources={STAGE}/{FOLDER} jobs={run.jobs}
if [ -d {STAGE}/layer ]; then cd {STAGE}/layer; fi
echo "the step '{run.name}' as it failed; its script:" {scripts} >&2
{_NOT_KEPT if masking.searched() else ""}unset PROMPT_COMMAND
PS1='{run.name}> '
"""
    # A new name: the step may have left links.
    with tempfile.NamedTemporaryFile("w", dir=run.staged, delete=False) as file:
        file.write(settings)
    rc = f"/tmp/{STAGED}/{Path(file.name).name}"
    return run.command(["bash", "--rcfile", rc, "-i"])
