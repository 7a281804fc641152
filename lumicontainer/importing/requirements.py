"""Read requirements of Python packages: single ones, and the lines of ``requirements.txt``."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from lumicontainer.core.model.requirements import lines, requirement
from lumicontainer.errors import InputError
from lumicontainer.importing.draft import CARRIED, NOT_NEEDED, Draft, Origin, fault
from lumicontainer.system.files.recipe_folder import read_bytes

_HASH = re.compile(r"\s--hash[= ]\S+")
_PROJECT = (
    "it installs a project with what that requires; name what it requires, and bind your code"
)
_INDEX = "indexes and pip's options are the site's configuration (pip config)"
_FILES = {"-r": "read", "--requirement": "read", "-c": "limit", "--constraint": "limit"}
_IGNORED = {"--pre", "--prefer-binary", "--no-cache-dir", "--require-hashes"}


def read_requirements(draft: Draft, name: str, seen: Sequence[str] = ()) -> None:
    """Add the lines of a file of requirements in the draft's folder, and of those that it names.

    Raises ``InputError`` if the file cannot be read.
    """
    for line in lines(read_bytes(draft.folder, name)):
        origin = Origin(name, line.line)
        option, value = split_option(line.text)
        if _FILES.get(option) == "read":
            _read_other(draft, origin, line.text, value, (*seen, name))
        elif option:
            add_option(draft, origin, option, value)
        else:
            add_requirement(draft, origin, line.text)


def split_option(text: str) -> tuple[str, str]:
    """Return the option that a line begins with, and its value; both empty if there is none."""
    if not text.startswith("-"):
        return "", ""
    found = re.fullmatch(r"(--[\w-]+|-\w)[=\s]*(.*)", text)
    return (found[1], found[2]) if found else (text, "")


def _read_other(draft: Draft, origin: Origin, text: str, value: str, seen: Sequence[str]) -> None:
    other = inner_name(str(PurePosixPath(origin.file).parent / value))
    if other in seen:
        draft.note(origin, text, NOT_NEEDED, "the file was read already")
        return
    read_named(draft, origin, text, other, seen)


def inner_name(path: str) -> str:
    """Return a relative path without ``.`` and ``..``; empty if it leads out of the folder."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part in ("..", "/"):
            return ""
        else:
            parts.append(part)
    return "/".join(parts)


def read_named(
    draft: Draft, origin: Origin, text: str, name: str, seen: Sequence[str] = ()
) -> None:
    """Add the lines of a file that a line names; refuse the line if it cannot be read."""
    if not name:
        draft.refuse(origin, text, "the file is not below the folder of what is imported")
        return
    before = len(draft.lines)
    try:
        read_requirements(draft, name, seen)
    except InputError as error:
        problem = error.problems[0]
        draft.refuse(origin, text, f"{problem.what}: {problem.where} {problem.why}".strip())
    else:
        draft.note(origin, text, CARRIED, f"the lines of {name} are below")
        draft.lines.insert(before, draft.lines.pop())


def add_option(draft: Draft, origin: Origin, option: str, value: str) -> None:
    """Add what becomes of an option of pip."""
    text = f"{option} {value}".strip()
    if option in ("-e", "--editable"):
        add_requirement(draft, origin, value, text)
    elif option in _IGNORED:
        draft.note(origin, text, NOT_NEEDED, "pip decides it in the step")
    elif "download.pytorch.org" in value:
        draft.note(origin, text, NOT_NEEDED, "the layer pytorch has its own index")
    elif option in _FILES:
        draft.refuse(origin, text, "lumicontainer lock pins all packages")
    else:
        draft.refuse(origin, text, _INDEX)


def add_requirement(draft: Draft, origin: Origin, given: str, text: str = "") -> None:
    """Add a requirement as pip reads it: a name with versions, a URL or a path."""
    text = text or _HASH.split(given)[0]
    bare = _HASH.split(given)[0].strip()
    source = _source(bare)
    if source:
        _add_download(draft, origin, text, bare, source)
        return
    try:
        read = Requirement(bare)
    except InvalidRequirement:
        local = bare.startswith((".", "/")) or "/" in bare
        draft.refuse(origin, text, _PROJECT if local else fault(requirement, bare))
        return
    _add_named(draft, origin, text, read, hashed=bare != given.strip())


def _add_named(draft: Draft, origin: Origin, text: str, read: Requirement, *, hashed: bool) -> None:
    if read.marker and not read.marker.evaluate(_target(draft)):
        draft.note(origin, text, NOT_NEEDED, f"not for Python {draft.goal.python} on Linux")
        return
    asked = f"{read.specifier} was asked for" if read.specifier else ""
    if draft.decided("python", canonicalize_name(read.name), origin, text, asked):
        return
    read.marker = None
    plain = str(read)
    cuda = [extra for extra in read.extras if re.search(r"cuda|cu1\d", extra)]
    if why := f"its extra {cuda[0]} is for NVIDIA's GPUs" if cuda else fault(requirement, plain):
        draft.refuse(origin, text, why)
        return
    draft.python.setdefault(plain, origin)
    draft.note(origin, text, CARRIED, "its hashes are left to lumicontainer lock" if hashed else "")


def _target(draft: Draft) -> dict[str, Any]:
    """Return the values of markers in the image that may differ from those of this host."""
    python = draft.goal.python
    full = dict.fromkeys(("implementation_version", "python_full_version"), f"{python}.0")
    return {**full, "python_version": python}


def _add_download(
    draft: Draft, origin: Origin, text: str, bare: str, source: dict[str, str]
) -> None:
    """Add a requirement with a URL: a layer takes its place, or it is a source to pin."""
    file = source.get("file", "")
    named = bare.partition(" @ ")[0] if " @ " in bare else source.get("folder", file.split("-")[0])
    if not draft.decided("python", package_of(named), origin, text):
        draft.refuse_source(origin, text, source)


def package_of(repository: str) -> str:
    """Return the name of the Python package that a repository holds."""
    name = str(canonicalize_name(re.split(r"[^\w.-]", repository)[0]))
    return "flash-attn" if name == "flash-attention" else name


def _source(text: str) -> dict[str, str]:
    """Return the source that a requirement's URL names, or nothing."""
    found = re.search(r"(?:git\+)?(?:https?|ssh|git)://\S+", text)
    if not found:
        return {}
    url = found[0]
    return git_source(url.removeprefix("git+")) if url.startswith("git+") else url_source(url)


FILL_IN = "FILL-IN"


def git_source(url: str, folder: str = "") -> dict[str, str]:
    """Return a git source to fill in; ``url`` may end in @COMMIT and #egg=NAME as pip's do."""
    path, _, revision = url.partition("#")[0].partition("://")[2].rpartition("@")
    # What stands before the host is a user's name or a secret.
    if "/" not in path:
        path, revision = revision, ""
    path = path.rpartition("@")[2]
    commit = revision if re.fullmatch(r"[0-9a-f]{40}", revision) else FILL_IN
    name = folder or PurePosixPath(path).name.removesuffix(".git")
    return {"git": f"https://{path}", "commit": commit, "folder": name}


def url_source(url: str, file: str = "") -> dict[str, str]:
    """Return a source of a file to fill in."""
    address, _, fragment = url.partition("#")
    name = file or PurePosixPath(address.partition("?")[0]).name or "download"
    sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else FILL_IN
    return {"url": address, "file": name, "sha256": sha256}


def add_pip(draft: Draft, origin: Origin, words: Sequence[str]) -> Iterator[str]:
    """Add the words behind ``pip install``; yield the paths that ``--requirement`` names."""
    left = list(words)
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if not word.startswith("-"):
            add_requirement(draft, origin, word)
        elif option in _SILENT or re.fullmatch("-[qvUI]+", option):
            continue
        elif option in _SILENT_WITH_VALUE:
            left = left if equals else left[1:]
        elif option in _WITH_VALUE:
            value = value if equals else (left.pop(0) if left else "")
            if _FILES.get(option) == "read":
                yield value
            else:
                add_option(draft, origin, option, value)
        else:
            draft.refuse(origin, f"pip install {word}", _INDEX)


_SILENT = {
    *("--no-cache-dir", "--no-cache", "--upgrade", "-U", "-q", "--quiet", "-qq", "-v", "--verbose"),
    *("--user", "--break-system-packages", "--no-input", "--disable-pip-version-check", "--system"),
    *("--no-warn-script-location", "--prefer-binary", "--ignore-installed", "-I", "-y", "--pre"),
    *("--force-reinstall", "--no-build-isolation", "--compile", "--no-compile"),
}
_SILENT_WITH_VALUE = {
    *("--root-user-action", "--timeout", "--default-timeout", "--retries", "--progress-bar"),
    *("--upgrade-strategy", "--cache-dir", "--python", "--config-settings", "--global-option"),
}
_WITH_VALUE = {
    *("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url"),
    *("--extra-index-url", "-f", "--find-links", "--trusted-host", "--index-strategy"),
    *("--target", "-t", "--prefix", "--no-binary", "--only-binary", "--index"),
}
