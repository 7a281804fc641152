"""The installed wheel works in an empty folder, for root and for an ordinary user."""

import json
import shutil
from pathlib import Path

from .conftest import NewCache, check_output, run, write_small
from .people import let_in


def test_the_wheel_contains_recipes_and_platforms(program: list[object]) -> None:
    data = json.loads(check_output(*program, "list", "--json"))
    assert "pytorch-deepspeed" in data["recipes"]
    assert {"workstation", "lumi-g"} <= set(data["platforms"])
    shown = check_output(*program, "show", "pytorch-deepspeed")
    assert " lumicontainer/recipes/layers/" in shown


def test_a_cache_in_a_folder_that_is_closed_to_the_user_has_a_hint(program: list[object]) -> None:
    *user, command = program
    done = run([*user, "env", "LUMICONTAINER_CACHE=/root/cache", command, "build", "pytorch"])
    assert done.returncode == 3, done.stderr
    assert "name another place with LUMICONTAINER_CACHE" in done.stderr


def test_an_ordinary_user_builds_and_runs_an_image(
    program: list[object],
    ordinary_user: list[object],
    home: Path,
    new_cache: NewCache,
    tmp_path: Path,
) -> None:
    let_in(tmp_path)
    env = new_cache(home / "cache")
    for path in (home / "cache", *(home / "cache").rglob("*")):
        shutil.chown(path, home.owner())
    words = ("build", "small", "--recipes", write_small(tmp_path), "--output", "mine.sif")
    image = check_output(*program, *words, env=env).strip()
    seen = check_output(*program, "run", image, "--", "cat", "/opt/greet/greeting")
    assert seen == "it's $(id) `id` %post {{ x }}"
    kept = (*ordinary_user, "sh", "-c", "ls /var/tmp/lumicontainer-$(id -u)/small-*")
    assert check_output(*kept).split() == ["idle", "lock", "sandbox"]


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
