"""Read what users want to add: packages, requirements.txt, pyproject.toml, pylock.toml, conda."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import Place, Problems
from lumicontainer.extending import conda, hashes
from lumicontainer.system.files.regular import open_regular

_HASH = " --hash=sha256:"
_MOST = 1 << 20
"""The largest file of requirements, in bytes."""


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
    lines = [*_packages(packages, problems)]
    for file in files:
        lines += _of_file(file, problems)
    code = [each.resolve() for each in folders]
    for folder in code:
        lines += _of_code(folder, problems)
    if not lines and not problems.found:
        hint = "name packages, or a file with -r"
        problems.add("nothing to add", "", hint=hint)
    problems.raise_if_any()
    python = [line for line in lines if line.startswith(conda.PYTHON)]
    split = [line.split(_HASH) for line in lines if line not in python]
    plain = dict.fromkeys(line for line, *_ in split)
    return Wanted(tuple(plain), _hashes(split), tuple(code), "".join(python)[len(conda.PYTHON) :])


def _hashes(lines: Iterable[Sequence[str]]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line, *given in lines:
        if given:
            name = normal(Requirement(line).name)
            found[name] = found.get(name, frozenset()).union(given)
    return found


def _packages(packages: Sequence[str], problems: Problems) -> Iterator[str]:
    for word in packages:
        if word.endswith((".txt", ".toml", ".yml", ".yaml")):
            problems.add(f"'{word}' is a file", "", hint=f"write -r {word}")
            continue
        yield from _requirement(word, "", problems)


def _requirement(
    text: str, where: Place | str, problems: Problems, given: Iterable[str] = ()
) -> Iterator[str]:
    try:
        yield _HASH.join([str(Requirement(text)), *given])
    except InvalidRequirement as error:
        why = str(error).splitlines()[0]
        hint = "write NAME, NAME==VERSION or NAME @ URL"
        problems.add(f"invalid requirement '{text}'", where, why=why, hint=hint)


def _of_file(file: Path, problems: Problems) -> list[str]:
    text = _text(file, problems)
    if text is None:
        return []
    if file.suffix in (".yml", ".yaml"):
        return conda.requirements(text, str(file), problems)
    if file.suffix == ".toml":
        return [*_of_toml(file, text, problems)]
    return [*_of_text(file, text, problems)]


def _text(file: Path, problems: Problems) -> str | None:
    try:
        with open_regular(file) as stream:
            return stream.read(_MOST).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        problems.add("cannot read the file of requirements", str(file), why=why, hint="name a file")
        return None


def _of_text(file: Path, text: str, problems: Problems) -> Iterator[str]:
    """Yield the lines of a requirements.txt, with those of the files that it names."""
    joined = text.replace("\\\n", " ")
    for number, raw in enumerate(joined.splitlines(), start=1):
        line = raw.partition(" #")[0].strip()
        option, _, value = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if option in ("-r", "--requirement"):
            yield from _of_file(file.parent / value.strip(), problems)
        elif option.startswith("-"):
            hint = (
                "remove the line; indexes come from pip's configuration, --editable DIR adds code"
            )
            problems.add(
                f"the option {option} is not read here", Place(str(file), number), hint=hint
            )
        else:
            place, bare = Place(str(file), number), line.partition(" --hash")[0]
            given = hashes.of_line(line, place, problems)
            yield from _requirement(bare, place, problems, given)


def _toml(file: Path, text: str, problems: Problems) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problems.add("this is not TOML", str(file), why=str(error), hint="correct the line")
        return None


def _of_toml(file: Path, text: str, problems: Problems) -> Iterator[str]:
    data = _toml(file, text, problems)
    if data is None:
        return
    if isinstance(data.get("packages"), list):
        for row in data["packages"]:
            pin, given = f"{row.get('name')}=={row.get('version')}", hashes.of_package(row)
            yield from _requirement(pin, str(file), problems, given)
        return
    project = data.get("project", {})
    if "dependencies" not in project:
        hint = "list them in [project] (PEP 621), or write a requirements.txt"
        problems.add("the file names no dependencies", str(file), hint=hint)
        return
    for each in project["dependencies"]:
        yield from _requirement(str(each), str(file), problems)


def _of_code(folder: Path, problems: Problems) -> Iterator[str]:
    """Yield what installs the user's own code, and what its build needs."""
    file = folder / "pyproject.toml"
    if not file.is_file() and not (folder / "setup.py").is_file():
        hint = "write a pyproject.toml; setuptools documents a minimal one"
        problems.add("the folder has no pyproject.toml", str(folder), hint=hint)
        return
    yield f"-e {folder}"
    text = _text(file, problems) if file.is_file() else ""
    data = _toml(file, text or "", problems) or {}
    for each in data.get("build-system", {}).get("requires", ()):
        yield from _requirement(str(each), str(file), problems)
        yield from ["editables"] if str(each).startswith("hatchling") else []  # Its code needs it.
