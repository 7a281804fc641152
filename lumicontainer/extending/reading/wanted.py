"""Read what users want to add: packages, requirements.txt, pyproject.toml, pylock.toml, conda."""

import codecs
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.requirements import requirement_lines
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.core.yaml.urls import HTTP, HTTPS, find_url_fault
from lumicontainer.errors import Fault, Place, Problems
from lumicontainer.extending.lock import hashes
from lumicontainer.extending.reading import conda, toml_files
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.terminal import masking

_HASH = re.compile(r"\s--hash[= ]")
_OPTION = re.compile(r"(--[\w-]+|-\w)[=\s]*([^\0]*)")
_MOST = 1 << 20
"""The largest file of requirements, in bytes."""
_DEEPEST = 50
"""Files of requirements that name each other in a row."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PIN = re.compile(r"#(?:.*&)?sha256=[0-9a-f]{64}(?:&|$)")
"""A hash in a URL, which uv writes into its lock and compares."""
_GIT = re.compile(
    r"(?:(?P<name>[A-Za-z0-9][\w.-]*)(?:\[.*\])?\s*@\s*)?git\+(?P<url>[^@#\s]+)(?:@(?P<commit>[^#\s]+))?"
    r"(?:#(?:.*&)?(?:egg=(?P<egg>[A-Za-z0-9][\w.-]*))?\S*)?"
)
_SOURCE_PATH = re.compile(r"[^@\s]*\.(?:whl|tar\.gz|tar\.bz2|zip)|\.{1,2}/?|[~./][^@\s]*/[^@\s]*")
_INDEX_OPTIONS = {
    **dict.fromkeys(("-i", "--index-url"), "PIP_INDEX_URL"),
    **dict.fromkeys(("-f", "--find-links"), "PIP_FIND_LINKS"),
    "--extra-index-url": "PIP_EXTRA_INDEX_URL",
}
"""The variables of pip that do what an option of a file would do."""
_EXPORTS = {
    "uv.lock": "run uv export --no-emit-project --format pylock.toml -o pylock.toml",
    "poetry.lock": "run poetry export -o requirements.txt",
}
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Wanted(NamedTuple):
    """Hold what to add, as lines of requirements for uv."""

    lines: tuple[str, ...]
    hashes: Mapping[str, frozenset[str]] = {}
    """The sha256 that the files of a package may have, by its plain name."""
    code: tuple[Path, ...] = ()
    """The folders of the user's own code."""
    python: str = ""
    """The version of Python that an environment.yml names, such as 3.11."""


def read_wanted(packages: Sequence[str], files: Sequence[Path], folders: Sequence[Path]) -> Wanted:
    """Return what the options name; raise ``InputError`` with every problem."""
    problems = Problems()
    masking.hide_urls(packages)
    lines = [*_packages(packages, problems)]
    reader = _Reader(problems)
    for file in files:
        lines += reader.lines(file)
    code = []
    for each in folders:
        folder, extras = _parted(each)
        code.append(folder)
        lines += _of_code(folder, extras, problems)
    if not lines and not problems.found:
        hint = "name packages, or a file with -r"
        problems.add("nothing to add", "", hint=hint)
    pythons = [each for each in lines if each.text.startswith(conda.PYTHON)]
    python = _python(pythons, problems)
    problems.raise_if_any()
    lines = [each for each in lines if each not in pythons]
    plain = dict.fromkeys(each.text for each in lines)
    return Wanted(tuple(plain), _hashes(lines), tuple(code), python)


def _python(lines: Iterable[PackageLine], problems: Problems) -> str:
    """Return the version of Python that environments name; empty if none does."""
    named = {each.text.removeprefix(conda.PYTHON): each.where for each in lines}
    first, *others = named or [""]
    for other in others:
        what, hint = f"the files name Python {first} and {other}", "name the image's in all files"
        problems.add(what, named[other], hint=hint)
    return first


def _hashes(lines: Iterable[PackageLine]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in lines:
        if line.hashes:
            name = normal(Requirement(line.text).name)
            found[name] = found.get(name, frozenset()).union(line.hashes)
    return found


def _packages(packages: Sequence[str], problems: Problems) -> Iterator[PackageLine]:
    for word in packages:
        if word.endswith((".txt", ".toml", ".yml", ".yaml", ".lock")):
            problems.add(f"'{word}' is a file", "", hint=f"write -r {shlex.quote(word)}")
            continue
        if _is_path(word):
            hint = _instead_of_path(Path(word))
            problems.add(f"'{word}' is a path, not the name of a package", "", hint=hint)
            continue
        yield from _requirement(PackageLine(word), problems)


def _is_path(word: str) -> bool:
    if "://" in word:
        return False
    return bool(_SOURCE_PATH.fullmatch(word)) or (os.sep in word and Path(word).is_dir())


def _requirement(line: PackageLine, problems: Problems) -> Iterator[PackageLine]:
    wrong, plain = None, ""
    if git := _GIT.fullmatch(line.text):
        what, hint = "a repository of git has no sha256", _instead_of_git(git)
        problems.add(what, line.where, why=line.text, hint=hint)
        return
    try:
        read = Requirement(line.text)
    except InvalidRequirement as error:
        wrong = Fault("", str(error).splitlines()[0], "write NAME, NAME==VERSION or NAME @ URL")
    else:
        plain = str(read)
        # uv would read each line of a URL by itself.
        wrong = Fault("", "it has a line break", "remove it") if plain.splitlines()[1:] else None
        wrong = wrong or _find_fault(read.url or "", line)
    if wrong:
        what = f"invalid requirement {line.text!r}"
        problems.add(wrong.what or what, line.where, why=wrong.why, hint=wrong.hint)
    else:
        yield line._replace(text=plain)


def _find_fault(url: str, line: PackageLine) -> Fault | None:
    """Return why the URL of a requirement, which the lock and the record keep, is refused."""
    if not _SCHEME.match(url):
        return None
    pinned = bool(line.hashes or _PIN.search(url))
    return find_url_fault(url, schemes=(HTTPS, HTTP, "file"), pinned=pinned)


class _Reader:
    """Read files of requirements, each one once: it may be named again and again."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._read: set[str] = set()

    def lines(self, file: Path, above: tuple[str, ...] = ()) -> Iterator[PackageLine]:
        """Yield the lines of a file, and of those that it names; ``above`` led to it."""
        place = os.path.realpath(file)
        if place in self._read:
            return
        self._read.add(place)
        text = _text(file, self._problems)
        if text is None:
            return
        if command := _EXPORTS.get(file.name):
            what, hint = f"{file.name} is not read here", f"{command}, and name that file with -r"
            self._problems.add(what, str(file), hint=hint)
            return
        if file.suffix == ".toml":
            for line in toml_files.requirements(text, str(file), self._problems):
                yield from _requirement(line, self._problems)
            return
        for line in _listed(text, file, self._problems):
            yield from self._of_line(line, file, (*above, place))

    def _of_line(
        self, line: PackageLine, file: Path, above: tuple[str, ...]
    ) -> Iterator[PackageLine]:
        """Yield a line of a requirements.txt, or the lines of the file that it names."""
        if line.text.startswith(conda.PYTHON):
            yield line
        elif not (option := _OPTION.fullmatch(line.text)):
            given = tuple(hashes.of_line(line.text, line.where, self._problems))
            bare = _HASH.split(line.text)[0]
            yield from _requirement(line._replace(text=bare, hashes=given), self._problems)
        elif option[1] not in ("-r", "--requirement"):
            what = f"the option {option[1]} is not read here"
            self._problems.add(what, line.where, hint=_instead_of_option(option[1], option[2]))
        elif os.path.realpath(named := file.parent / option[2]) in above:
            what = "the file of requirements names itself"
            self._problems.add(what, line.where, hint="remove the line")
        elif len(above) == _DEEPEST:
            what, hint = f"more than {_DEEPEST} files name each other", "name the file with -r"
            self._problems.add(what, line.where, hint=hint)
        else:
            yield from self.lines(named, above)


def _listed(text: str, file: Path, problems: Problems) -> Iterator[PackageLine]:
    if file.suffix in (".yml", ".yaml"):
        yield from conda.requirements(text, str(file), problems)
        return
    for each in requirement_lines(text.encode()):
        yield PackageLine(each.text, Place(str(file), each.line, each.column))


def _text(file: Path, problems: Problems) -> str | None:
    what = "cannot read the file of requirements"
    try:
        with open_regular(file) as stream:
            content = stream.read(_MOST + 1)
        # Pip knows these encodings by their byte order marks, too.
        text = content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        problems.add(what, str(file), why=why, hint="name a file")
        return None
    if len(content) > _MOST:
        why = f"it has more than {_MOST} bytes"
        problems.add(what, str(file), why=why, hint="name parts of it with several -r")
        return None
    masking.hide_urls([text])
    return text


def _instead_of_option(option: str, value: str) -> str:
    """Return a hint for an option of pip in a file of requirements."""
    if name := _INDEX_OPTIONS.get(option):
        return f"remove the line, and write {name}={shlex.quote(value)} before lumicontainer"
    if option in ("-e", "--editable"):
        return f"remove the line, and add --editable {shlex.quote(value)} to the command"
    return "remove the line; options and indexes come from pip's configuration"


def _instead_of_path(path: Path) -> str:
    """Return a hint for a wheel, a source or a folder that stands in place of a package."""
    if path.is_dir():
        return f"write --editable {shlex.quote(str(path))}"
    found = re.match(r"([A-Za-z0-9._]+?)-([0-9][A-Za-z0-9.!+]*?)(?:-|\.whl|\.tar|\.zip)", path.name)
    package = f"{found[1]}=={found[2]}" if found else "NAME==VERSION"
    folder = shlex.quote(str(path.absolute().parent))
    return f"write PIP_FIND_LINKS={folder} before lumicontainer, and {package} as the package"


def _instead_of_git(git: re.Match[str]) -> str:
    """Return a hint for a repository: the archive of a commit has a hash."""
    name, commit = git["name"] or git["egg"] or "NAME", git["commit"] or ""
    if re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", git["url"]):
        place = git["url"].removesuffix(".git")
        commit = commit if re.fullmatch("[0-9a-f]{40}", commit) else "COMMIT"
        return f"write {shlex.quote(f'{name} @ {place}/archive/{commit}.tar.gz')}"
    return "clone it, and write --editable FOLDER"


def _parted(path: Path) -> tuple[Path, str]:
    """Return the folder of the user's own code, and its extras with their brackets."""
    found = re.fullmatch(r"(.+)(\[[A-Za-z0-9._, -]+\])", str(path))
    if found is None or path.exists():
        return path.resolve(), ""
    return Path(found[1]).resolve(), found[2]


def _of_code(folder: Path, extras: str, problems: Problems) -> Iterator[PackageLine]:
    """Yield what installs the user's own code, and what its build needs."""
    if not folder.is_dir():
        problems.add("folder not found", str(folder), hint="correct --editable DIR")
        return
    file = folder / "pyproject.toml"
    if not file.is_file() and not (folder / "setup.py").is_file():
        hint = "write a pyproject.toml; setuptools documents a minimal one"
        problems.add("the folder has no pyproject.toml", str(folder), hint=hint)
        return
    yield PackageLine(f"-e {folder}{extras}")
    text = _text(file, problems) if file.is_file() else ""
    for each in toml_files.build_requirements(text or "", str(file), problems):
        yield from _requirement(each, problems)
        if each.text.startswith("hatchling"):  # Its code needs it.
            yield PackageLine("editables")
