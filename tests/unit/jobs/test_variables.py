"""The variables of an image of a registry reach its programs as they are."""

from pathlib import Path

import pytest

from lumicontainer.image import variables
from lumicontainer.system import process

STRANGE = {
    "QUOTES": "say \"hi'",
    "JSON": '{"a": "$HOME"}',
    "CODE": "$(touch x) `id` $$ \\n",
    "TILDE": "~/x",
    "LINES": "one\ntwo\n",
    "EMPTY": "",
}


def seen(shell: str, folder: Path, rows: list[str], **users: str) -> dict[str, str]:
    """Return the variables of a program that a shell starts after it reads the script."""
    (folder / "script").write_text(variables.script(rows))
    words = [shell, "-euc", '. "$0"; exec /usr/bin/env -0', str(folder / "script")]
    printed = process.capture(words, env={"HOME": "/root", "PATH": "/bin", **users})
    return dict(row.partition("=")[::2] for row in printed.split("\0") if row)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_values_are_no_code(shell: str, tmp_path: Path) -> None:
    variables = seen(shell, tmp_path, [f"{name}={value}" for name, value in STRANGE.items()])
    assert {name: variables[name] for name in STRANGE} == STRANGE


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_what_the_user_set_wins_but_for_path(shell: str, tmp_path: Path) -> None:
    rows = ["PATH=/a b:/c", "SET=image", "EMPTY=image", "BARE"]
    variables = seen(shell, tmp_path, rows, SET="user", EMPTY="")
    expected = {"PATH": "/a b:/c", "SET": "user", "EMPTY": "image", "BARE": ""}
    assert {name: variables[name] for name in expected} == expected


def test_what_no_shell_takes_for_a_name_is_left_out() -> None:
    names = ("no-name", "no.name", "1name", "näme", "", "a;id")
    assert variables.script(f"{name}=1" for name in names) == "#!/bin/sh\n"
