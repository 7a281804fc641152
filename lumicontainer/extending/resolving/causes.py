"""Say in one headline why uv refuses packages: name, version, network, build or conflict."""

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.requirements import NAME
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import DownloadError, InputError, LumicontainerError, Problem, StepError
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution
from lumicontainer.host.uv import LOGIN, NO_ACCESS, STAND_IN
from lumicontainer.packages.uv_messages import unbuilt_sources
from lumicontainer.system import process

_UNREACHED = re.compile(r"Request failed|Failed to fetch|error sending request|Could not connect")
_NO_ACCESS = re.compile(r"\b40[13] (?:Unauthorized|Forbidden)\b|lack of valid authentication")
_ABSENT = re.compile(rf"(?<!\S)({NAME}) was not found in the (?:package|provided)")
_TAGS = re.compile(r"no wheels with a matching|no usable wheels|depends on Python")
_EARLY = re.compile(
    r"Pre-releases are available for `[^`]+` in the requested range \(e\.g\., (\S+)\)"
)
_SENTENCE = re.compile(r"(?<=[.)])\s+(?=(?:Because|And because|hint:)\s)")
_STEP = re.compile(r"\s+from \(\d+\)|\s+\(\d+\)$", re.M)
"""The number of a sentence, and how others name it."""
_MOST_LINES, _WIDTH = 10, 100
_INDEXES = "the indexes are in pip's configuration (pip config list) and in files of requirements"


def explain_single(
    resolution: Resolution, question: Question, refusal: Refusal
) -> LumicontainerError | None:
    """Return the error of an index, a build or one requirement; None for a conflict."""
    text, image = plain(refusal.text), str(resolution.container.image)
    if denial := _denial(resolution, refusal.text):
        return DownloadError(Problem(NO_ACCESS, why=denial, hint=LOGIN))
    if _UNREACHED.search(text):
        if file := next((each for each in _addresses(question) if each in text), ""):
            hint = "check the URL and the network, or download the file and name it: ./FILE"
            return DownloadError(Problem("cannot download a package", file, last_lines(text), hint))
        hint = f"check the network; {_INDEXES}"
        what = "cannot reach an index of packages"
        return DownloadError(Problem(what, why=last_lines(text), hint=hint))
    for source, name in unbuilt_sources(text):
        what = f"cannot build {source.replace('==', ' ')} in the image"
        hint = f"read its message, or ask for another version: {name}==VERSION"
        return StepError(Problem(what, image, last_lines(text), hint))
    if problems := list(_unavailable(resolution, question)):
        return InputError(*problems)
    return None


def explain_early_end(resolution: Resolution, refusal: Refusal) -> LumicontainerError:
    """Return the error of a uv that was ended: by code of a source, or because memory was short."""
    shell = 128
    status = refusal.status
    why = process.describe(shell - status if status > shell else status)
    why = "\n".join(filter(None, (why, last_lines(refusal.text))))
    hint = "use a host with more memory, or leave out what has no wheel and is built"
    image = str(resolution.container.image)
    return StepError(Problem("uv ended before it chose versions", image, why, hint))


def _addresses(question: Question) -> Iterator[str]:
    """Yield the URLs of files in the user's lines, without their hashes."""
    for line in question.named or question.lines:
        with suppress(InvalidRequirement):  # A folder of the user's own code.
            if url := Requirement(line).url:
                yield url.partition("#")[0]


def _denial(resolution: Resolution, text: str) -> str:
    """Return the line in which uv says that an index refuses access, or ""."""
    if absent := _ABSENT.search(text):
        text = resolution.why_absent(absent[1])
    lines = (line.removeprefix("hint: ").strip() for line in text.splitlines())
    return next(filter(_NO_ACCESS.search, lines), "")


def _unavailable(resolution: Resolution, question: Question) -> Iterator[Problem]:
    """Yield the requirements that no version meets, also without the image's packages."""
    lines = registry_lines(question.lines)
    with suppress(Refusal):
        resolution.newest(lines)
        return
    for line in lines:
        try:
            resolution.newest([line])
        except Refusal as refusal:
            yield _unmet(resolution, Requirement(line), plain(refusal.text))


def _unmet(resolution: Resolution, line: Requirement, text: str) -> Problem:
    if _ABSENT.search(text):
        what = f"package '{line.name}' not found in the configured indexes"
        return Problem(what, hint=f"correct the name; {_INDEXES}")
    meant = f"{line.name}{line.specifier}"
    if _TAGS.search(text):
        what = f"no file of {meant} fits Python {resolution.facts.python} of the image"
        return Problem(what, why=shorten(text), hint=f"ask for another version of {line.name}")
    what = f"no release of {line.name} meets '{meant}'"
    if early := _EARLY.search(text):
        hint = f"name one to get it: {shlex.quote(f'{line.name}=={early[1]}')}"
        return Problem(what, why="it has only pre-releases there", hint=hint)
    with suppress(Refusal):
        newest = resolution.newest([line.name])[normal(line.name)]
        return Problem(what, why=f"the newest is {newest}", hint=f"write {line.name}=={newest}")
    return Problem(what, hint=_INDEXES)


def registry_lines(lines: Sequence[str]) -> list[str]:
    """Return the requirements that name no URL and no folder."""
    requirements = []
    for line in lines:
        with suppress(InvalidRequirement):  # A folder of the user's own code.
            if not Requirement(line).url:
                requirements.append(line)
    return requirements


def plain(text: str) -> str:
    """Return a text of uv without the marks of stand-ins."""
    shown = text.replace(f".{STAND_IN}", "").replace(f"+{STAND_IN}", "")
    proof = shown.partition("cause: ")[2] if "No solution found" in shown else ""
    return proof or shown.removeprefix("error: ")


def shorten(text: str) -> str:
    """Return the last sentences of a proof, which are about the newest versions: ten lines.

    They begin where a conclusion begins ("Because …"), and not with what was concluded earlier.
    """
    parts = _SENTENCE.split(" ".join(text.split()))
    sentences = [each for each in parts if each and "hint:" not in each]
    shown: list[list[str]] = []
    for each in reversed(sentences):
        lines = textwrap.wrap(each, _WIDTH, break_long_words=False, break_on_hyphens=False)
        if sum(map(len, shown)) + len(lines) > _MOST_LINES:
            break
        shown.insert(0, lines)
    cut = len(shown) < len(sentences)
    begin = next((n for n, lines in enumerate(shown) if lines[0].startswith("Because")), 0)
    text = "\n".join(chain(*shown[begin if cut else 0 :]))
    # The sentences that these numbers name may be cut away.
    text = _STEP.sub("", text) if cut else text
    return text or "too many versions of too many packages exclude each other"


def last_lines(text: str) -> str:
    """Return the end of what a build printed."""
    lines = [line.rstrip() for line in text.partition("\nhint:")[0].splitlines() if line.strip()]
    return process.last_lines("\n".join(lines[-_MOST_LINES:]))
