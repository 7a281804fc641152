"""Read what users want to add: packages, requirements.txt, pyproject.toml, pylock.toml, conda."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.requirements import decode_requirements, requirement_lines
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.core.yaml.urls import HTTP, HTTPS, find_url_fault
from lumicontainer.errors import Fault, Place, Problems
from lumicontainer.extending.reading import toml_files
from lumicontainer.extending.reading.conda import read_dependencies
from lumicontainer.extending.reading.indexes import IndexOption, read_index_option
from lumicontainer.extending.reading.lines import PackageLine
from lumicontainer.extending.reading.references import (
    Reference,
    is_reference,
    read_reference,
    split_extras,
)
from lumicontainer.packages.lines import EDITABLE, FILES, HASH, Option, read_line
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.terminal import masking

_MOST = 1 << 20
"""The largest file of requirements, in bytes."""
_DEEPEST = 50
"""Files of requirements that name each other in a row."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PIN = re.compile(r"#(?:.*&)?sha256=[0-9a-f]{64}(?:&|$)")
"""A hash in a URL, which uv writes into its lock and compares."""
_VERSIONS = "write its versions behind the packages, such as numpy<2, and remove the line"
_HINTS = {"-c": _VERSIONS, "--constraint": _VERSIONS}
"""The hints for options of pip that are not read."""
_EXPORTS = {
    "uv.lock": "run uv export --no-dev --no-emit-project --format pylock.toml -o pylock.toml",
    "poetry.lock": "run poetry export -o requirements.txt",
}


class Additions(NamedTuple):
    """Hold what to add, as lines of requirements for uv."""

    lines: tuple[str, ...]
    hashes: Mapping[str, frozenset[str]] = {}
    """The sha256 that the files of a package may have, by its plain name."""
    requires_hashes: bool = False
    """Whether each package needs one (``--require-hashes``)."""
    code: tuple[Path, ...] = ()
    """The folders of the user's own code."""
    python: str = ""
    """The version of Python that an environment.yml names, such as 3.11."""
    references: tuple[Reference, ...] = ()
    """The packages of git repositories, and of files and folders of this host."""
    indexes: tuple[IndexOption, ...] = ()
    """The options of indexes in files of requirements."""
    notes: tuple[str, ...] = ()
    """The packages of files that are left out, with the reasons."""


def read_additions(
    packages: Sequence[str], files: Sequence[Path], folders: Sequence[Path]
) -> Additions:
    """Return what the options name; raise ``InputError`` with every problem."""
    problems = Problems()
    masking.hide_urls(packages)
    reader = _Reader(problems)
    lines = [*reader.words(packages)]
    for file in files:
        lines += reader.lines(file)
    for each in folders:
        lines += reader.code_of(str(each))
    if not lines and not reader.references and not problems.noted:
        hint = "name packages, or a file with -r"
        problems.add("nothing to add", "", hint=hint)
    python = _python(reader.pythons, problems)
    problems.raise_if_any()
    plain = tuple(dict.fromkeys(each.text for each in lines))
    return Additions(
        plain,
        _hashes(lines),
        reader.requires_hashes,
        tuple(dict.fromkeys(reader.code)),
        python,
        tuple(dict.fromkeys(reader.references)),
        tuple(reader.indexes),
        tuple(dict.fromkeys(reader.notes)),
    )


def _python(lines: Iterable[PackageLine], problems: Problems) -> str:
    """Return the version of Python that environments name; empty if none does."""
    named = {each.text: each.where for each in lines}
    first, *others = named or [""]
    for other in others:
        what, hint = f"the files name Python {first} and {other}", "name the image's in all files"
        problems.add(what, named[other], hint=hint)
    return first


def _hashes(lines: Iterable[PackageLine]) -> dict[str, frozenset[str]]:
    by_name: dict[str, frozenset[str]] = {}
    for line in lines:
        if line.hashes:
            name = normal(Requirement(line.text).name)
            by_name[name] = by_name.get(name, frozenset()).union(line.hashes)
    return by_name


def _checked(line: PackageLine, problems: Problems) -> Iterator[PackageLine]:
    wrong, plain = None, ""
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
    return find_url_fault(url, schemes=(HTTPS, HTTP), pinned=pinned)


class _Reader:
    """Read words, and files of requirements, each one once: it may be named again and again."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._read: set[str] = set()
        self.references: list[Reference] = []
        self.code: list[Path] = []
        self.indexes: list[IndexOption] = []
        self.requires_hashes = False
        self.pythons: list[PackageLine] = []
        self.notes: list[str] = []

    def words(self, packages: Iterable[str]) -> Iterator[PackageLine]:
        """Yield the requirements among words of the command line."""
        for word in packages:
            if word.endswith((".txt", ".in", ".cfg", ".toml", ".yml", ".yaml", ".lock")):
                self._problems.add(f"'{word}' is a file", "", hint=f"write -r {shlex.quote(word)}")
            else:
                yield from self._requirement(PackageLine(word))

    def code_of(self, place: str, where: Place | str = "") -> Iterator[PackageLine]:
        """Yield what installs the user's own code in a folder, and what its build needs."""
        folder, extras = split_extras(place)
        path = Path(os.path.realpath(folder))
        self.code.append(path)
        for each in _lines_of_code(path, extras, where, self._problems):
            yield from [each] if each.text.startswith("-e ") else self._requirement(each)

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
                yield from self._requirement(line)
            self.indexes += toml_files.indexes(text, file, self._problems)
            return
        for line in self._listed(text, file):
            yield from self._of_line(line, file, (*above, place))

    def _listed(self, text: str, file: Path) -> Iterator[PackageLine]:
        if file.suffix in (".yml", ".yaml"):
            environment = read_dependencies(text, str(file), self._problems)
            self.pythons += environment.pythons
            self.notes += environment.notes
            yield from environment.lines
            return
        for each in requirement_lines(text):
            yield PackageLine(each.text, Place(str(file), each.line, each.column))

    def _of_line(
        self, line: PackageLine, file: Path, above: tuple[str, ...]
    ) -> Iterator[PackageLine]:
        """Yield a line of a requirements.txt, or the lines of the files that it names."""
        read = read_line(line.text)
        for option in read.options:
            if option.name in FILES:
                yield from self._of_file(option.value, line, file, above)
            elif option.name != HASH:
                yield from self._of_option(option, line, file)
        for hash_ in read.unread_hashes():
            hint = "write --hash=sha256: with 64 hexadecimal digits, as pip hash prints it"
            self._problems.add(f"cannot read the hash '{hash_}'", line.where, hint=hint)
        if read.requirement:
            hashes = tuple(read.hashes())
            yield from self._requirement(line._replace(text=read.requirement, hashes=hashes))

    def _of_file(
        self, name: str, line: PackageLine, file: Path, above: tuple[str, ...]
    ) -> Iterator[PackageLine]:
        named = file.parent / name
        if os.path.realpath(named) in above:
            what = "the file of requirements names itself"
            self._problems.add(what, line.where, hint="remove the line")
        elif len(above) == _DEEPEST:
            what, hint = f"more than {_DEEPEST} files name each other", "name the file with -r"
            self._problems.add(what, line.where, hint=hint)
        else:
            yield from self.lines(named, above)

    def _of_option(self, option: Option, line: PackageLine, file: Path) -> Iterator[PackageLine]:
        """Read an option of pip: an index, or code that the user changes."""
        name, value = option
        if name in EDITABLE and value.startswith("git+"):
            yield from self._requirement(line._replace(text=value))
        elif name in EDITABLE:
            yield from self.code_of(value, line.where)
        elif index := read_index_option(name, value, file):
            if isinstance(index, Fault):
                self._problems.add(index.what, line.where, why=index.why, hint=index.hint)
            else:
                self.indexes.append(index)
        elif name == "--require-hashes":
            self.requires_hashes = True
        elif name != "--prefer-binary":
            hint = _HINTS.get(name, "remove the line; other options come from pip's configuration")
            self._problems.add(f"the option {name} is not read here", line.where, hint=hint)

    def _requirement(self, line: PackageLine) -> Iterator[PackageLine]:
        """Yield a requirement of an index or a URL; keep one that names another place."""
        if not is_reference(line.text):
            yield from _checked(line, self._problems)
            return
        reference = read_reference(line)
        if isinstance(reference, Fault):
            self._problems.add(reference.what, line.where, why=reference.why, hint=reference.hint)
        else:
            self.references.append(reference)


def _text(file: Path, problems: Problems) -> str | None:
    what = "cannot read the file of requirements"
    try:
        with open_regular(file) as stream:
            content = stream.read(_MOST + 1)
        text = decode_requirements(content, "strict")
        if "\0" in text:
            raise ValueError(file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        problems.add(what, str(file), why=why, hint="name a file")
        return None
    if len(content) > _MOST:
        why = f"it has more than {_MOST} bytes"
        problems.add(what, str(file), why=why, hint="name parts of it with several -r")
        return None
    masking.hide_urls([text])
    return text


def is_project(folder: Path) -> bool:
    """Return whether a folder can be installed."""
    return any((folder / name).is_file() for name in ("pyproject.toml", "setup.py"))


def _lines_of_code(
    folder: Path, extras: str, where: Place | str, problems: Problems
) -> Iterator[PackageLine]:
    if not os.path.isdir(folder):  # noqa: PTH112 - Path raises an error for a name that is too long
        problems.add("folder not found", where or str(folder), hint="correct --editable DIR")
        return
    file = folder / "pyproject.toml"
    if not is_project(folder):
        hint = "write a pyproject.toml; setuptools documents a minimal one"
        problems.add("the folder has no pyproject.toml", str(folder), hint=hint)
        return
    yield PackageLine(f"-e {folder}{extras}")
    text = _text(file, problems) if file.is_file() else ""
    yield from toml_files.build_requirements(text or "", str(file), problems)
