"""Find the indexes that copied settings choose: ``pip.conf`` and ``uv.toml``.

Packages of these indexes may have the names of others in the site's index, so that an import says
each of them.
"""

import configparser
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from lumicontainer.importing.draft import FileLine, hide_passwords, limit_entries
from lumicontainer.importing.lists.requirements import add_option
from lumicontainer.packages.indexes import SETTINGS, pip_indexes, uv_indexes
from lumicontainer.packages.lines import Option

_READERS: Mapping[str, Callable[[str], Iterator[Option]]] = {
    "pip.conf": pip_indexes,
    "uv.toml": uv_indexes,
}
NAMES = (*_READERS,)
_SET = re.compile(
    rf"(?i)(?<![\w-])(?:{'|'.join(SETTINGS).replace('-', '[-_]')})\s*[=:]|\[index\]",
)


def are_settings(path: str) -> bool:
    """Return whether pip or uv takes its settings from files of a name."""
    return PurePosixPath(path).name in _READERS


def chooses_index(text: str) -> bool:
    """Return whether a command names such a file, and a setting that chooses an index."""
    return any(name in text for name in NAMES) and bool(_SET.search(text.replace("\\n", "\n")))


def add_settings(line: FileLine, path: str, content: bytes) -> bool:
    """Add the indexes that a file of settings chooses; return whether it chooses any.

    A file that cannot be read is refused, as it may choose some.
    """
    name, text = PurePosixPath(path).name, content.decode("utf-8", "replace")
    try:
        hide_passwords(line.file, [text])
        options = [*limit_entries(line.file, _READERS[name](text), "setting")]
    except (ValueError, configparser.Error):
        line.refuse(f"it is not a valid {name}, which may choose an index")
        return True
    for each in options:
        add_option(line, *each)
    return bool(options)
