"""Read requirements of Python packages: names with versions (PEP 508), and nothing else.

A URL, a path or an option would have pip fetch, build and run code that nothing pins.
"""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.yaml.readers import Fault, checked, text

_VERSION = r"[0-9]+(?:\.[0-9]+)*(?:(?:a|b|rc|\.post|\.dev)[0-9]+)*(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
EXACT = re.compile(rf"{NAME}=={_VERSION}")
_ARCHIVE = re.compile(r"(?i)\.(?:whl|zip|tar|tgz|tbz|txz|tar\.\w+)(?:\[.*\])?")
_ELSEWHERE = re.compile(r"\S*(?:@|://|/|\\)|\.")

_HINT = "write NAME==VERSION; name repositories and files under 'sources'"
_SITE = "remove it; indexes and pip's options are the site's configuration (pip config)"
_MARKER = "the image has one Python: let a variant or a version of the layer choose"


def fault(text: str, *, markers: bool = False) -> Fault | None:
    """Return why a requirement is refused, or None where it is a name with versions.

    ``markers`` accepts conditions after a semicolon too.
    """
    what = f"expected a requirement such as numpy==2.3.4, got {text!r}"
    bare, semicolon, _ = text.partition(";")
    if not text.isprintable():
        return Fault(what, "it holds a control character", _HINT)
    if text.startswith("-"):
        return Fault(what, "it is an option of pip's", _SITE)
    if _ELSEWHERE.match(bare) or "@" in bare or _ARCHIVE.search(bare):
        why = "it is a URL or a path: nothing pins it, and pip would run its code"
        return Fault(what, why, _HINT)
    if semicolon and not markers:
        return Fault(what, "it has a condition behind ';'", _MARKER)
    return _unread(text, what)


def _unread(text: str, what: str) -> Fault | None:
    try:
        read = Requirement(text)
    except InvalidRequirement as error:
        return Fault(what, str(error).splitlines()[0], _HINT)
    if read.url or any(each.operator == "===" for each in read.specifier):
        return Fault(what, "'===' compares with any text, a path too", "write ==")
    return None


requirement = checked(text, fault, pattern=r"^[A-Za-z0-9][^@/\\;]*$")
