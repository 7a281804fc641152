"""Find what a cache has written in its folders, where users may also have files."""

import re
from pathlib import Path

HASH = "[0-9a-f]{64}"


def entries(folder: Path, form: str = HASH) -> list[Path]:
    """Return the entries of a folder whose names have a form, a regular expression."""
    return sorted(path for path in folder.glob("*") if re.fullmatch(form, path.name))


def files(folder: Path) -> list[Path]:
    """Return the files of a folder that are named by a hash."""
    return [path for path in entries(folder) if path.is_file()]
