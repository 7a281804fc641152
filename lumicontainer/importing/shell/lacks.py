"""Say what a command lacks that uses, or runs in, what is not there."""

import re

from lumicontainer.importing.draft import NOT_CARRIED, NOT_NEEDED
from lumicontainer.importing.replacements import table
from lumicontainer.importing.shell.losses import Lost
from lumicontainer.importing.shell.parts import ShellPart, strip_wrappers

INSTALLS = re.compile(
    r"\b(?:pip[\d.]*|conda|mamba|micromamba|apt|apt-get|poetry|pdm|pipenv|pixi)\s+(?:-\S+\s+)*install\b"
    r"|\buv\s+(?:sync|add|pip)\b|\b(?:conda|mamba)\s+env\b"
)
_INSTALLER = re.compile(
    r"(?:^|[;&|(]\s*|\b(?:do|then|else)\s+)"
    r"(?!(?:g?make|ninja|meson|cmake|scons|waf|b2|bjam|install|echo|printf)\b)"
    r"(?:[A-Za-z][\w.-]*|\"?\$\{?\w+\}?\"?)\s+install\s+[^\s-]"
)
"""Another program that is to install something by its name."""
_FILES = re.compile(r"\s(?:-[rce]|--requirement|--constraint|--editable)[ =]\s*\S+")
_OF_INDEX = re.compile(r"\binstall(?:\s+-\S+)*\s+[\"']?[A-Za-z$]")
_FETCHES = re.compile(
    r"https?:|ftp:|git@|\b(?:curl|wget|aria2c)\b|\bgit\s+clone\b|\bpip[\d.]*[\"',]+\s*[\"']install\b"
)
_LOOKS = ("rm", "ls", "cat", "head", "stat", "chmod", "wc")
"""Programs by which nothing of a list gets into the image."""


def loss_of_list(part: ShellPart, lost: Lost) -> Lost:
    """Return what a command lacks: nothing if it only looks at a list of packages."""
    looks = part.command and part.command.program() in _LOOKS and not part.command.outputs
    of_list = lost.missing is None and not lost.layer
    return lost._replace(outcome=NOT_NEEDED) if looks and of_list else lost


def loss_besides(part: ShellPart, lost: Lost) -> Lost:
    """Return what a command lacks: only one that builds what a layer has is not needed, too."""
    begin = " ".join(part.command.words) if part.command else part.plain
    fetches = lost.outcome == NOT_CARRIED and _FETCHES.search(part.line.text)
    if fetches or _installs(part):
        # It is missing in addition to the folder.
        return lost._replace(outcome=NOT_CARRIED, missing=None)
    if lost.outcome != NOT_NEEDED or lost.why or re.match(table()["builds"], begin):
        return lost
    return lost._replace(outcome=NOT_CARRIED, missing=None)


def _installs(part: ShellPart) -> bool:
    """Return whether a command installs more than the folder in which it runs."""
    known = INSTALLS.search(part.line.text) and _OF_INDEX.search(_FILES.sub("", part.plain))
    return bool(known or installs_by_name(part.line.text))


def installs_by_name(text: str) -> bool:
    """Return whether a text has another program install something by its name."""
    return bool(_INSTALLER.search(strip_wrappers(text)))
