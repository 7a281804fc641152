"""Say which command starts a program of an image, without those that only prepare it."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from lumicontainer.importing.replacements import table
from lumicontainer.importing.shell.options import words_behind

_STARTERS = (
    *("exec", "conda run", "mamba run", "micromamba run", "uv run", "poetry run", "pdm run"),
    *("pipenv run", "gosu", "su-exec", "tini", "dumb-init"),
)
_OF_ENVIRONMENT = re.compile(
    r"(?:/[\w.-]+)*/\.?venv/bin/(?=[\w.-]+$)|(?:/[\w.-]+)*/\w*conda\d?(?:/envs/[\w.-]+)?/bin/(?=python)"
)
"""Leads to a program of another environment, whose packages the image's Python has."""
_SPECIAL = re.compile(r"[|&;<>()`$*?\n]")
_ARGUMENTS = re.compile(r"""\s+(?:"\$\{?[@*]\}?"|\$\{?[@*]\}?)\s*$""")


def start_words(words: Sequence[str]) -> list[str]:
    """Return what a command finally starts: ``python x.py`` of ``tini -- python x.py``."""
    left = [*words]
    while left:
        if left[0] in table()["entries"]:
            del left[0]
            continue
        named = [PurePosixPath(left[0]).name, *left[1:]]
        size = next((size for size in (2, 1) if " ".join(named[:size]) in _STARTERS), 0)
        behind = words_behind(" ".join(named[:size]), named[size:]) if size else None
        if behind is None:
            left[0] = _OF_ENVIRONMENT.sub("", left[0])
            break
        is_script = named[:1] == ["uv"] and behind[:1] and behind[0].endswith(".py")
        left = ["python", *behind] if is_script else behind
    return left


def start_text(text: str) -> str:
    """Return the command that a shell's text starts; one that more shell reads is for ``bash``."""
    bare = _ARGUMENTS.sub("", text.strip())
    if _SPECIAL.search(bare):
        return f"bash -c {shlex.quote(bare)}"
    try:
        words = shlex.split(bare)
    except ValueError:
        return bare
    left = start_words(words)
    return bare if left == words else shlex.join(left)
