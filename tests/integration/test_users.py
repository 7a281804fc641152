"""The installed wheel works in an empty folder, for root and for an ordinary user."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import run, write_small
from .people import let_in, ordinary


@pytest.fixture(scope="module")
def ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[object]]:
    """Return the start of a command that runs as an ordinary user, in a folder of that user's."""
    with ordinary(tmp_path_factory.mktemp("user")) as start:
        yield start


@pytest.fixture(scope="module")
def program(ordinary_user: list[object], wheel: Path) -> Iterator[list[object]]:
    """Yield the command of the wheel, installed in a virtual environment of the user's own."""
    made = run([*ordinary_user, "python3", "-m", "venv", "--without-pip", "lumicontainer-venv"])
    assert made.returncode == 0, made.stderr
    home = Path(run([*ordinary_user, "pwd"]).stdout.strip())
    python = home / "lumicontainer-venv/bin/python"
    # This pip, because the user's Python may have none of its own.
    done = run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel])
    assert done.returncode == 0, done.stderr
    yield [*ordinary_user, home / "lumicontainer-venv/bin/lumicontainer"]
    run([*ordinary_user, "rm", "-rf", "lumicontainer-venv"])


def test_the_wheel_contains_recipes_and_platforms(program: list[object]) -> None:
    done = run([*program, "list", "--json"])
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert "pytorch-deepspeed" in data["recipes"]
    assert {"workstation", "lumi-g"} <= set(data["platforms"])
    shown = run([*program, "show", "pytorch-deepspeed"])
    assert shown.returncode == 0, shown.stderr
    assert "site-packages/lumicontainer/recipes/layers" in shown.stdout


def test_a_cache_in_a_folder_that_is_closed_to_the_user_has_a_hint(
    program: list[object], ordinary_user: list[object]
) -> None:
    env = [*ordinary_user, "env", "LUMICONTAINER_CACHE=/root/cache"]
    done = run([*env, *program[len(ordinary_user) :], "build", "pytorch"])
    assert done.returncode == 3, done.stderr
    assert "name another place with LUMICONTAINER_CACHE" in done.stderr


def test_an_ordinary_user_builds_and_runs_an_image(
    program: list[object],
    ordinary_user: list[object],
    new_cache: Callable[[Path], dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("shared")
    let_in(folder)
    recipes = write_small(folder)
    home = Path(run([*ordinary_user, "pwd"]).stdout.strip())
    env = new_cache(home / "cache")
    for path in (home / "cache", *(home / "cache").rglob("*")):
        shutil.chown(path, home.owner())
    words = ("build", "small", "--recipes", recipes, "--output", "mine.sif")
    built = run([*program, *words], env=env)
    assert built.returncode == 0, built.stderr
    image = built.stdout.strip()
    seen = run([*program, "run", image, "--", "cat", "/opt/greet/greeting"])
    assert seen.stdout == "it's $(id) `id` %post {{ x }}", seen.stderr
    kept = run([*ordinary_user, "sh", "-c", "ls /var/tmp/lumicontainer-$(id -u)/small-*"])
    assert kept.stdout.split() == ["idle", "lock", "sandbox"]
    run([*ordinary_user, "rm", "-rf", image, home / "cache"])


def test_a_folder_of_a_layer_that_is_closed_to_the_user_is_not_left_out(
    program: list[object], tmp_path: Path
) -> None:
    let_in(tmp_path)
    recipes = write_small(tmp_path)
    closed = recipes / "layers/greet/data"
    closed.mkdir()
    closed.chmod(0)
    done = run([*program, "render", "small", "--recipes", recipes])
    assert (done.returncode, done.stdout) == (2, "")
    message = f"error: cannot read the folder\n  where: {closed}\n    why: Permission denied"
    assert message in done.stderr
