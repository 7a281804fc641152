"""Find the folder whose files a Dockerfile or a definition copies, and what it leaves out."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from lumicontainer.importing.draft import limit_entries
from lumicontainer.system.files.recipe_folder import read_text

_IGNORE = ".dockerignore"
_MOST = 6
"""The number of folders above the file that are examined."""
_FOLDERS = "(?:[^/]*+/)*?"


def find_context(file: Path, sources: Sequence[str]) -> Path:
    """Return the folder that has most of the copied files: the file's own, or one above it.

    Above it are folders of the same repository only, or the next one if there is no repository.
    """
    own, *above = _candidates(file.parent)
    named = [each.lstrip("/") for each in sources if "://" not in each and "$" not in each]
    beside = [each.name for each in own.iterdir() if not each.name.startswith(".")]
    if any(each.strip("./") == "" for each in named) and all(map(_is_build_file, beside)):
        return above[-1] if above and (above[-1] / ".git").exists() else own
    plain = [each for each in named if each.strip("./")]
    return max((own, *above), key=lambda folder: sum(_has(folder, each) for each in plain))


def _candidates(folder: Path) -> list[Path]:
    """Return a folder and those above it that may hold what its files name, the nearest first."""
    whole = folder.resolve()
    rows = [whole, *whole.parents][:_MOST]
    rows = [each for each in rows if each not in (Path.home(), *Path.home().parents)] or [whole]
    root = next((n for n, each in enumerate(rows) if (each / ".git").exists()), None)
    rows = rows[: 2 if root is None else root + 1]
    return [folder, *rows[1:]]


def _is_build_file(name: str) -> bool:
    return bool(re.search(r"(?i)dockerfile|containerfile|\.def$|compose|^readme", name))


def _has(folder: Path, name: str) -> bool:
    if PurePosixPath(name).parts[:1] == ("..",) or "\0" in name:
        return False
    try:
        return any(True for _ in folder.glob(name)) if "*" in name else (folder / name).exists()
    except (ValueError, OSError):
        return False


def ignoring(folder: Path, file: str) -> Callable[[str], bool]:
    """Return what says of a path in a folder whether Docker leaves it out.

    The path of a folder ends with a slash: all that is in it is left out then.
    Raises ``InputError`` if the file that lists such paths cannot be read.
    """
    names = (f"{file}{_IGNORE}", _IGNORE)
    name = next((each for each in names if (folder / each).exists()), "")
    patterns = _patterns(read_text(folder, name)) if name else ()
    rows = [*limit_entries(name, patterns, "pattern")]
    some_stay = any(keeps for _, keeps in rows)

    def is_ignored(path: str) -> bool:
        ignored = PurePosixPath(path).parts[:1] == (".git",)
        for pattern, keeps in rows:
            if pattern.match(path.rstrip("/")):
                ignored = not keeps
        return ignored and not (some_stay and path.endswith("/"))

    return is_ignored


def _patterns(text: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Yield the patterns of a .dockerignore; the last one that matches a path decides."""
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        keeps = bare.startswith("!")
        parts = [each for each in bare.lstrip("!").strip().split("/") if each not in ("", ".")]
        form = "/".join(parts)
        # Below a folder that is left out, all is.
        yield re.compile(rf"{_as_regex(form)}(?:/.*)?\Z", re.DOTALL), keeps


def _as_regex(form: str) -> str:
    """Return the expression of a pattern.

    A star that others follow keeps the shortest match, which is enough: no pattern makes the
    search try all ways to share a path among its stars.
    """
    groups: list[list[str]] = [[]]
    for part in form.split("/"):
        if part == "**":
            groups.append([])
        else:
            groups[-1].append(_segment(part))
    first, *others = groups
    if not others:
        return "/".join(first)
    *middle, last = others
    inner = "".join(f"(?>{_FOLDERS}{_folders(each)})" for each in middle if each)
    end = "/".join(last)
    return f"{_folders(first)}{inner}{_FOLDERS + end if end else '.+'}"


def _folders(segments: Sequence[str]) -> str:
    return "".join(f"{each}/" for each in segments)


def _segment(part: str) -> str:
    """Return the expression of what stands between two slashes of a pattern."""
    first, *others = (
        "".join("[^/]" if letter == "?" else re.escape(letter) for letter in piece)
        for piece in re.split(r"\*+", part)
    )
    if not others:
        return first
    *middle, last = others
    return f"{first}{''.join(f'(?>[^/]*?{each})' for each in middle)}[^/]*{last}"
