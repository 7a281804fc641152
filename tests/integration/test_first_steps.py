"""What a user sees of a first build, and a shell in its image."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .conftest import lumicontainer


def test_a_verbose_build_prints_its_commands_and_their_output(
    recipes: Path, new_cache: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """The cache is new: checks that passed in an earlier build are not run, and print nothing."""
    words = ("build", recipes / "small.yaml", "--output", tmp_path / "small.sif", "--verbose")
    done = lumicontainer(*words, env=new_cache(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^\+ .*mksquashfs ", done.stderr)
    assert re.search(r"(?m)^[\d:]{8} check: .*greet/greeting", done.stderr)


def typed(image: Path, keys: str) -> tuple[int, str]:
    """Type into ``lumicontainer shell`` at a terminal; return its exit code and what it showed."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "lumicontainer", "shell", str(image)]
    child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, keys.encode())
    shown = b""
    try:
        while part := os.read(master, 4096):
            shown += part
    except OSError:  # Its other side is closed.
        pass
    os.close(master)
    return child.wait(), shown.decode()


def test_a_shell_in_an_image_has_its_variables_and_gives_its_exit_code(small: Path) -> None:
    code, shown = typed(small, "echo style=$GREETING_STYLE; cat /opt/greet/greeting; exit 7\n")
    assert code == 7
    assert "style=plain" in shown
    assert "it's $(id)" in shown
