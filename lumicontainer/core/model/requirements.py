"""Requirements of Python packages: names with versions (PEP 508), and nothing else.

A URL, a path or an option would have pip fetch, build and run code that nothing pins.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml.readers import checked, text
from lumicontainer.core.yaml.urls import find_url_fault, without_secrets
from lumicontainer.errors import Fault, Place, Problems

_VERSION = r"[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc|\.post|\.dev)[0-9]+)*(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
EXACT = re.compile(rf"{NAME}=={_VERSION}")
_ARCHIVE = re.compile(r"(?i)\.(?:whl|zip|tar|tgz|tbz|txz|tar\.\w+)(?:\[.*\])?")
_ELSEWHERE = re.compile(r"\S*(?:@|://|/|\\)|\.")

_COMMIT = re.compile("[0-9a-f]{7,40}")
_REPOSITORY = re.compile(
    rf"(?:(?P<name>{NAME})\s*@\s*)?git\+(?P<url>https://[^\s@#]+/(?P<folder>[\w.-]+?)(?:\.git)?/?)"
    r"(?:@(?P<commit>[\w.-]+))?(?:#\S*)?"
)

_HINT = "write NAME==VERSION; name repositories and files under 'sources'"
_SITE = "remove it; indexes and pip's options are the site's configuration (pip config)"
_MARKER = "the image has one Python: let a variant or a version of the layer choose"


def fault(text: str, *, markers: bool = False) -> Fault | None:
    """Return why a requirement is refused, or None if it is a name with versions.

    ``markers`` accepts conditions after a semicolon too.
    """
    what = f"expected a requirement such as numpy==2.3.4, got {text!r}"
    bare, semicolon, _ = text.partition(";")
    if not text.isprintable():
        return Fault(what, "it holds a control character", _HINT)
    if text.startswith("-"):
        return Fault(what, "it is an option of pip's", _SITE)
    if _ELSEWHERE.match(bare) or "@" in bare or _ARCHIVE.search(bare):
        why = "it is a URL or a path: nothing pins it, and pip would run its code"
        return Fault(what, why, _source_hint(text) or _HINT)
    if semicolon and not markers:
        return Fault(what, "it has a condition behind ';'", _MARKER)
    return _unread(text, what)


def _source_hint(text: str) -> str:
    """Return the lines of a layer that install a repository of git; empty for other texts."""
    match = _REPOSITORY.fullmatch(text)
    if not match or find_url_fault(match["url"]):
        return ""
    folder, revision = match["name"] or match["folder"], match["commit"] or ""
    commit = revision if _COMMIT.fullmatch(revision) else "COMMIT"
    source = f"{{git: {match['url']!r}, commit: {commit}, folder: {folder}}}"
    install = f'python3 -m pip install "$sources/{folder}"'
    first = f"write under 'sources': - {source}"
    return f"{first}\nunder 'packages': apt: [ca-certificates, git]\nand in install.sh: {install}"


def _unread(text: str, what: str) -> Fault | None:
    try:
        read = Requirement(text)
    except InvalidRequirement as error:
        return Fault(what, str(error).splitlines()[0], _HINT)
    if read.url or any(each.operator == "===" for each in read.specifier):
        return Fault(what, "'===' compares with any text, a path too", "write ==")
    return None


def marker_values(python: str) -> dict[str, str]:
    """Return the values that markers (PEP 508) have in an image with a Python such as 3.11."""
    values = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    values |= {"os_name": "posix", "platform_system": "Linux", "sys_platform": "linux"}
    full = dict.fromkeys(("python_full_version", "implementation_version"), f"{python}.0")
    return {**values, **full, "platform_machine": "x86_64", "python_version": python}


def applies(text: str, python: str) -> bool:
    """Return whether pip installs a requirement in an image with this Python."""
    try:
        marker = Requirement(text).marker
        return marker is None or marker.evaluate(marker_values(python))
    except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
        return True  # Pip reports it.


requirement = checked(text, fault, pattern=r"^[A-Za-z0-9][^@/\\;]*$")


KNOWN_FILES = ("requirements.txt", "tools.txt", "build.txt")
"""Files of a layer that are requirements by their names."""

_CODECS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""By the mark at its start: how pip decodes a file (pip/_internal/utils/encoding.py)."""
_FIRST_HASH = re.compile(r"(?<!\s)\s++--hash=")
_HASHES = re.compile(r"(?:\s++--hash=sha256:[0-9a-f]{64})++")


class RequirementLine(NamedTuple):
    """Hold one requirement of a file, with its line and column from 1."""

    text: str
    line: int
    column: int

    @property
    def bare(self) -> str:
        """Return the requirement without its hashes."""
        first = _FIRST_HASH.search(self.text)
        if first and _HASHES.fullmatch(self.text, first.start()):
            return self.text[: first.start()]
        return self.text


def decode_requirements(content: bytes, errors: str = "replace") -> str:
    """Return the text of a file of requirements; ``errors`` is as for ``bytes.decode``."""
    codec = next((codec for mark, codec in _CODECS.items() if content.startswith(mark)), "utf-8")
    return content.decode(codec, errors)


def requirement_lines(content: bytes | str) -> Iterator[RequirementLine]:
    """Yield the lines of a file as pip reads them: joined behind a backslash, without comments."""
    joined, start = "", 1
    text = content if isinstance(content, str) else decode_requirements(content)
    for number, raw in enumerate(text.split("\n"), 1):
        whole = raw.rstrip("\r")
        # A comment begins the line, or stands behind a blank.
        bare = re.sub(r"(^|\s)#.*", "", whole)
        start = start if joined else number
        if whole.endswith("\\") and bare == whole:
            joined += bare[:-1]
            continue
        text = joined + bare
        joined = ""
        if text.strip():
            yield RequirementLine(text.strip(), start, len(text) - len(text.lstrip()) + 1)


def is_file_of(file: LayerFile) -> bool:
    """Return whether a file of a layer is pip's requirements.

    It has the name of one, or names a version and holds nothing but what pip reads.
    """
    if not file.name.endswith(".txt"):
        return False
    if file.name.rpartition("/")[2] in KNOWN_FILES:
        return True
    lines = [each.text for each in requirement_lines(file.content)]
    return any(map(EXACT.fullmatch, lines)) and all(map(_is_for_pip, lines))


def _is_for_pip(text: str) -> bool:
    """Return whether pip would take a line for a requirement or an option; prose is neither."""
    wrong = fault(text, markers=True)
    return wrong is None or text.startswith("-") or len(text.split()) == 1 or " @ " in text


def has_hashes(file: LayerFile) -> bool:
    """Return whether a file of requirements pins what it names by itself."""
    return any(line.bare != line.text for line in requirement_lines(file.content))


def check_files(files: Iterable[LayerFile], folder: str, problems: Problems) -> None:
    """Note the lines of a layer's files of requirements that are more than names with versions."""
    for file in files:
        for line in requirement_lines(file.content) if is_file_of(file) else ():
            if wrong := _line_fault(line):
                place = Place(f"{folder}/{file.name}", line.line, line.column)
                what = f"expected a requirement such as numpy==2.3.4, got {line.text!r}"
                problems.add(what, place, why=wrong.why, hint=wrong.hint)


def _line_fault(line: RequirementLine) -> Fault | None:
    if (wrong := fault(line.bare, markers=True)) or line.bare == line.text:
        return wrong
    exact = [each.operator == "==" for each in Requirement(line.bare).specifier]
    if exact == [True] and ".*" not in line.bare.partition(";")[0]:
        return None
    return Fault("", "a hash is of one version", "write NAME==VERSION before it")


def check_version(name: str, value: object, place: str, problems: Problems) -> None:
    """Note a layer's version that cannot stand behind the name of a Python package."""
    wrong = fault(f"{name}=={value}")
    if wrong:
        what = f"invalid version {str(value)!r} of the Python package '{name}'"
        problems.add(what, place, why=wrong.why, hint="write it like 2.1.0 (PEP 440)")


def check_index(value: object, place: str, problems: Problems) -> None:
    """Note the URL of an index of Python packages that could be anyone's, or shows a password."""
    plain = re.fullmatch(r"https://[A-Za-z0-9][A-Za-z0-9._~/%+:-]*", str(value))
    if not plain or find_url_fault(str(value)):
        what = f"invalid index of Python packages {without_secrets(str(value))!r}"
        why = "it must be a URL by https, without a password"
        hint = "write https://HOST/PATH; other indexes and their passwords belong to pip config"
        problems.add(what, place, why=why, hint=hint)
