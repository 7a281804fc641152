"""Find the commands in a group: a subshell, braces, a loop over words, a script for a shell."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from lumicontainer.importing.shell.split import end_of_group
from lumicontainer.importing.shell.words import QUIET, Command, simple_command

MOST_LEVELS = 10
"""Groups in each other that are read."""
_MOST_TURNS = 50
_QUIET = re.compile(r"\s*(?:(?:[12&]?>\s*/dev/null|2>&1)\s*)*(\|\|\s*(?:true|:|exit\s+\d+))?")
_LOOP = re.compile(r"for\s+([A-Za-z_]\w*)\s+in\s+([^;\n]*+)[;\n]\s*do\s")
_LEAVES = re.compile(r"\b(?:break|continue|exit|return)\b")
_GLOB = re.compile(r"[*?{}~]")
_SHELL = r"(?:(?:/usr)?/bin/)?(?:ba|da)?sh(?:\s+-[a-bd-z]+|\s+pipefail)*"
_HEREDOC = re.compile(
    rf"(?:{_SHELL}\s*)?<<(?P<tabs>-?)\s*(?P<quote>[\"']?)(?P<word>\w+)(?P=quote)(?:\s+{_SHELL})?\s*"
)


class Group(NamedTuple):
    """Hold the commands of a group, and how they run."""

    body: str
    offset: int = 0
    """The lines of the text before the body."""
    own_shell: bool = True
    """Whether the folder and the variables that it sets end with it."""
    behind: str = ""
    """Stands behind it, such as ``|| true``."""
    turns: tuple[tuple[str, str], ...] = (("", ""),)
    """The variable of a loop, with its value in each turn."""


def group_of(text: str, command: Command | None, values: Mapping[str, str]) -> Group | None:
    """Return a group of commands; None for other texts, or if it is not sure what it runs."""
    if command and (script := command.script()):
        return Group(script)
    before, bars, last = text.rpartition("||")
    if bars and "&&" in before and _is_quiet(last):
        return Group(_strip_end(before), behind=f"|| {last.strip()}")
    if text.startswith(("(", "{ ", "{\n", "{\\\n")) and not text.startswith("(("):
        return _bracket(text)
    return _heredoc(text) if "<<" in text else _loop(text, values)


def _is_quiet(text: str) -> bool:
    """Return whether what stands behind ``||`` installs nothing."""
    first = (text.split() or [""])[0]
    return first in QUIET and not re.search(r"[&;()\n'\"]", text)


def _bracket(text: str) -> Group | None:
    end = end_of_group(text)
    behind = _QUIET.fullmatch(text[end:].replace("\\\n", "  ")) if end else None
    own_shell = text.startswith("(")
    if behind is None or (behind[0] and not own_shell):
        return None
    return Group(text[1 : end - 1], own_shell=own_shell, behind=behind[1] or "")


def _loop(text: str, values: Mapping[str, str]) -> Group | None:
    head = _LOOP.match(text.replace("\\\n", "  "))
    if not head or not text.endswith("done"):
        return None
    body = text[head.end() : -len("done")]
    listed = simple_command(f"for {head[2]}", values)
    words = listed.words[1:] if listed and not listed.outputs else ()
    ends = body.replace("\\\n", "  ").rstrip(" \t").endswith((";", "\n"))
    if not ends or _LEAVES.search(body) or any(map(_GLOB.search, words)):
        return None
    if not 0 < len(words) <= _MOST_TURNS:
        return None
    turns = tuple((head[1], word) for word in words)
    return Group(body, text.count("\n", 0, head.end()), own_shell=False, turns=turns)


def _heredoc(text: str) -> Group | None:
    first, _, rest = text.partition("\n")
    match = _HEREDOC.fullmatch(first)
    if not match or not re.search(r"sh\b", first.replace(match["word"], "", 1)):
        return None
    lines = [line.lstrip("\t") if match["tabs"] else line for line in rest.split("\n")]
    if match["word"] not in lines or lines.index(match["word"]) < len(lines) - 1:
        return None
    body = "\n".join(lines[:-1])
    # The outer shell puts in its own values, which may differ from the inner shell's.
    if not match["quote"] and re.search(r"[$`\\]", body):
        return None
    return Group(body, 1)


def _strip_end(text: str) -> str:
    """Return a text without the blanks and continued lines at its end."""
    while True:
        bare = text.rstrip()
        if not (bare.endswith("\\") and text.startswith("\n", len(bare))):
            return bare
        text = bare[:-1]
