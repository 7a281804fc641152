"""Text of programs, servers and files that is made to take for ever is read in linear time."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.model import requirements
from lumicontainer.extending.reading.references import is_reference
from lumicontainer.extending.resolving import causes, conflicts
from lumicontainer.host import transfers
from lumicontainer.importing.shell import groups, inner_scripts, parts
from lumicontainer.packages.conda import read_package
from lumicontainer.packages.uv_messages import missing_extras, unbuilt_sources
from lumicontainer.sandbox.failures import failure, missing_packages
from lumicontainer.system.terminal import masking, output, style
from lumicontainer.trust import installed

from ..cpu import within

SIZE = 300_000
SECONDS = 4.0
"""More than 20 times what any of them takes; quadratic reading takes minutes."""
ASKED = "ERROR: Could not find a version that satisfies the requirement a"


def bare(text: str) -> str:
    return requirements.RequirementLine(text, 1, 1).bare


def secrets(text: str) -> list[str]:
    return list(masking.url_secrets(text))


def shell_secrets(text: str) -> list[str]:
    return list(masking.shell_secrets(text))


def lines(text: str) -> list[requirements.RequirementLine]:
    return list(requirements.requirement_lines(text.encode()))


def fault(text: str) -> object:
    return requirements.fault(text, markers=True)


def folded(text: str) -> str:
    return style.wrapped(text, 80)


def needs(text: str) -> list[conflicts.Conflict]:
    return list(conflicts._read(text))


def command(text: str) -> object:
    return groups.group_of(text, None, {})


def licences(text: str) -> tuple[str, ...]:
    files: Any = SimpleNamespace(read=lambda *_: f"Format: 1.0\nLicense: {text}".encode())
    return installed._debian_licences(files, "a")


READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "an extra of uv": (missing_extras, f"warning: The package `{'a' * SIZE}"),
    "extras of uv": (missing_extras, "warning: The package `a==1\n" * (SIZE // 27)),
    "an extra of pip": (missing_extras, f"WARNING: {'a' * SIZE} {'1' * SIZE} does not"),
    "blanks in a proof": (causes.shorten, f"{'Because a, b. (1) ' * (SIZE // 18)}{' (' * SIZE}"),
    "blanks before a hash": (bare, f"a{' ' * SIZE}b"),
    "hashes": (bare, f"a==1{(' --hash=sha256:' + '0' * 64) * (SIZE // 79)} x"),
    "a requirement's name": (fault, "a" * SIZE),
    "a requirement's digits": (fault, f"a=={'9' * SIZE}"),
    "a requirement's condition": (fault, f"a; {'(' * SIZE}"),
    "a requirement's conditions": (fault, f"a; {' and '.join(['os_name==1'] * (SIZE // 15))}"),
    "a requirement's archive": (fault, ".whl[" * (SIZE // 5)),
    "blanks in a requirement": (is_reference, f"a{' ' * SIZE}b"),
    "a requirement's path": (is_reference, f".{'/' * SIZE} b"),
    "a requirement's extras": (is_reference, f"a[{'a,' * (SIZE // 2)}"),
    "names in a shell": (shell_secrets, "a_token=" * (SIZE // 8)),
    "options in a shell": (shell_secrets, f"--{'a-' * (SIZE // 2)}"),
    "continued requirements": (lines, "a\\\n" * (SIZE // 3)),
    "a conda package": (read_package, f"{'a' * SIZE}["),
    "a conda version": (read_package, f"a ={'1.' * (SIZE // 2)}!"),
    "sections of a script": (hazard, "\n%" * (SIZE // 2)),
    "indents of a script": (hazard, " " * SIZE),
    "a challenge's name": (transfers._CHALLENGE.findall, "a" * SIZE),
    "a challenge's values": (transfers._CHALLENGE.findall, 'a="' * (SIZE // 3)),
    "a URL's letters": (secrets, "a" * SIZE),
    "a URL's users": (secrets, "a://" * (SIZE // 4)),
    "a URL's fields": (secrets, "?key" * (SIZE // 4)),
    "a URL's values": (secrets, "?key=" * (SIZE // 5)),
    "versions of apt": (missing_packages.absent, f"E: Version '{chr(39)} for '' " * 9000),
    "a version of apt": (missing_packages.absent, "E: Version '" + "' for '" * (SIZE // 7)),
    "a version of pip": (missing_packages.absent, f"{ASKED} (from {' (from a)' * (SIZE // 9)}"),
    "a failed download": (failure._NOT_DOWNLOADED.search, "E: Version '" + "' for '" * (SIZE // 7)),
    "an absent package": (causes._ABSENT.search, "a" * SIZE),
    "absent packages": (causes._ABSENT.search, "a-" * (SIZE // 2)),
    "a package's needs": (needs, "a" * SIZE),
    "packages' needs": (needs, "a==" * (SIZE // 3)),
    "all packages' needs": (needs, "all versions of a depend on" * (SIZE // 27)),
    "the user's needs": (needs, f"you require {'a,' * (SIZE // 2)}"),
    "a proof": (causes.shorten, "Because a. " * (SIZE // 11)),
    "a proof's word": (causes.shorten, f"Because {'z' * SIZE}"),
    "a source that is not built": (unbuilt_sources, "Failed to build `a " * (SIZE // 19)),
    "words of a command": (parts._WORDS.fullmatch, f"{'a' * SIZE}!"),
    "blanks of a list": (command, f"a && b{' ' * SIZE}x || true"),
    "continued lines of a list": (command, f"a && b{chr(92)}{chr(10)}{' ' * SIZE} || true"),
    "empty lines of a script": (partial(inner_scripts._COMMENT.sub, ""), "\n" * SIZE),
    "blanks of a licence": (licences, f"a{' ' * SIZE}b"),
    "blanks after a licence": (licences, f"{' ' * SIZE}\n" * 3),
    "escape sequences": (output.clean, f"\x1b[{'0' * SIZE}"),
    "overwritten lines": (output.clean, "a\r" * (SIZE // 2)),
    "commands of a terminal": (output.clean, "\x1b]" * (SIZE // 2)),
    "a word of a message": (folded, f"  why: {'a' * SIZE}"),
    "words of a message": (folded, f"  why: {'a ' * (SIZE // 2)}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", READERS)
def test_a_text_is_read_in_linear_time(case: str) -> None:
    read, text = READERS[case]
    with within(SECONDS):
        read(text)


def test_a_requirement_without_its_hashes_is_what_stands_before_them() -> None:
    digest = f"--hash=sha256:{'0' * 64}"
    assert bare(f"a==1 {digest}  {digest}") == "a==1"
    for other in (
        "a==1",
        f"a==1 {digest} b",
        "a==1 --hash=sha256:0",
        f"a==1 --hash=md5:0 {digest}",
    ):
        assert bare(other) == other


def test_the_secrets_of_queries_are_found() -> None:
    text = "x?a=1&Token=one&b=2 http://h/?x=http://i?api_key=two&auth=three?y https://h/?key="
    assert secrets(text) == ["one", "two", "three?y"]
