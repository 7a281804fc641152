"""The output of a first build, and a shell in its image."""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from ..cli.conftest import succeeded
from .conftest import lumicontainer, run


def test_a_verbose_build_prints_its_commands_and_their_output(
    recipes: Path, new_cache: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """The cache is new: checks that passed in an earlier build are not run, and print nothing."""
    words = ("build", recipes / "small.yaml", "--output", tmp_path / "small.sif", "--verbose")
    done = succeeded(lumicontainer(*words, env=new_cache(tmp_path / "cache")))
    assert re.search(r"(?m)^\+ .*mksquashfs ", done.stderr)
    assert re.search(r"(?m)^[\d:]{8} check: .*greet/greeting", done.stderr)


def test_a_shell_in_an_image_has_its_variables_and_gives_its_exit_code(small: Path) -> None:
    """It is typed at a terminal, which script makes."""
    shell = shlex.join([sys.executable, "-m", "lumicontainer", "shell", str(small)])
    keys = "echo style=$GREETING_STYLE; cat /opt/greet/greeting; exit 7\n"
    done = run(["script", "--quiet", "--return", "--command", shell, "/dev/null"], stdin=keys)
    assert done.returncode == 7
    assert "style=plain" in done.stdout
    assert "it's $(id)" in done.stdout
