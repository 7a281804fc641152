"""What the user set wins over what the image sets, by whichever way it was set."""

import json
import re
from pathlib import Path

import pytest

from ..conftest import STRANGE
from .conftest import (
    ENGINE,
    SMALL,
    STRANGE_LINES,
    lumicontainer,
    run,
    strange_values,
    write_small,
)

NAME = "GREETING_STYLE"
"""A layer of the image sets it to ``plain``."""
SHOW = f'printf "%s|" "${{{NAME}-unset}}" "$LANG" "$LD_LIBRARY_PATH"; printf "%s\\n" "$PATH"'

CASES: dict[str, tuple[list[str], dict[str, str], str]] = {
    # what: (options of the engine, environment of the host, the value in the container)
    "nothing": ([], {}, "plain"),
    "a plain export": ([], {NAME: "mine"}, "mine"),
    "a plain export of what a shell would read": ([], {NAME: "it's $(id) `id` * a=b"}, None),
    "a plain export of two lines": ([], {NAME: f"one\n{NAME}_=two"}, None),
    "exported empty": ([], {NAME: ""}, ""),
    "SINGULARITYENV_": ([], {f"SINGULARITYENV_{NAME}": "mine"}, "mine"),
    "--env": (["--env", f"{NAME}=mine"], {}, "mine"),
    "a plain export and SINGULARITYENV_": (
        [],
        {NAME: "plainly", f"SINGULARITYENV_{NAME}": "mine"},
        "mine",
    ),
    "SINGULARITYENV_ and --env": (
        ["--env", f"{NAME}=mine"],
        {f"SINGULARITYENV_{NAME}": "other"},
        "mine",
    ),
    "a plain export and --env": (["--env", f"{NAME}=mine"], {NAME: "plainly"}, "mine"),
    "all three": (
        ["--env", f"{NAME}=mine"],
        {NAME: "plainly", f"SINGULARITYENV_{NAME}": "other"},
        "mine",
    ),
    "--cleanenv and a plain export": (["--cleanenv"], {NAME: "mine"}, "plain"),
    "--cleanenv and SINGULARITYENV_": (
        ["--cleanenv"],
        {f"SINGULARITYENV_{NAME}": "mine"},
        "mine",
    ),
    "--cleanenv and --env": (["--cleanenv", "--env", f"{NAME}=mine"], {}, "mine"),
    "--containall": (["--containall"], {NAME: "mine"}, "plain"),
    "a variable whose name ends like it": ([], {f"MY_{NAME}": "mine"}, "plain"),
    "a variable whose name begins like it": ([], {f"{NAME}_MORE": "mine"}, "plain"),
    "a variable whose value names it": ([], {"OTHER": f"x {NAME}=mine"}, "plain"),
    "a variable with a line that sets it": ([], {"OTHER": f"x\n{NAME}=mine"}, "plain"),
}


def seen(image: Path, *, options: list[str], env: dict[str, str], verb: str = "exec") -> list[str]:
    """Return the variable, LANG, LD_LIBRARY_PATH and PATH as the container's program sees them."""
    program = ["--", "sh", "-c", SHOW] if verb == "run" else ["sh", "-c", SHOW]
    done = run([ENGINE, "-s", verb, "--userns", *options, image, *program], env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.rstrip("\n").rsplit("|", 3)


@pytest.mark.parametrize(
    ("case", "verb"), [*((case, "exec") for case in CASES), ("all three", "run")]
)
def test_what_the_user_set_wins_over_the_image(small: Path, case: str, verb: str) -> None:
    options, env, expected = CASES[case]
    value, *_, path = seen(small, options=options, env=env, verb=verb)
    assert value == (env[NAME] if expected is None else expected)
    assert path.startswith("/opt/greet/bin:")


@pytest.fixture(scope="module")
def plain(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an image as the engine does without us, with the environment that a document holds."""
    folder = tmp_path_factory.mktemp("plain")
    constants = {"LANG": "C.UTF-8", "LD_LIBRARY_PATH": "/opt/greet/lib"}
    environment = json.dumps({NAME: "plain", **constants, **STRANGE})
    layer = SMALL["layers/greet/layer.yaml"].replace(f"{{{NAME}: plain}}", environment)
    recipes = write_small(folder / "recipes", {"layers/greet/layer.yaml": layer})
    text = lumicontainer("render", "small", "--recipes", recipes).stdout
    section = re.search(r"(?ms)^%environment$.*?(?=^%)", text)
    assert section is not None
    definition = folder / "plain.def"
    definition.write_text(f"Bootstrap: localimage\nFrom: {small}\n\n{section[0]}")
    done = run([ENGINE, "build", "--fakeroot", "--sandbox", folder / "tree", definition])
    assert done.returncode == 0, done.stderr
    return folder / "tree"


@pytest.mark.parametrize("case", CASES)
def test_it_wins_in_an_image_that_the_engine_built_alone(plain: Path, case: str) -> None:
    options, env, expected = CASES[case]
    value, *_, path = seen(plain, options=options, env=env)
    assert value == (env[NAME] if expected is None else expected)
    assert path.startswith("/opt/greet/bin:")


def test_strange_values_arrive_in_an_image_that_the_engine_built_alone(plain: Path) -> None:
    assert strange_values([ENGINE, "-s", "exec", "--userns", plain]) == STRANGE


@pytest.mark.parametrize("options", [[], ["--cleanenv"], ["--containall"]])
def test_strange_values_arrive_in_an_image(small: Path, options: list[str]) -> None:
    found = strange_values([ENGINE, "-s", "exec", "--userns", *options, small])
    assert found == STRANGE_LINES


def test_what_names_files_and_locales_of_the_host_is_the_image_s_own(plain: Path) -> None:
    env = {"LANG": "en_US.UTF-8", "LD_LIBRARY_PATH": "/usr/lib64/host", "PATH": "/host:/usr/bin"}
    env["PATH"] += f":{Path(ENGINE).parent}"
    _, language, libraries, path = seen(plain, options=[], env=env)
    assert language == "C.UTF-8"
    assert libraries.startswith("/opt/greet/lib")
    assert "host" not in libraries + path


def test_even_that_is_the_user_s_where_it_is_meant(plain: Path) -> None:
    meant = {"SINGULARITYENV_LANG": "C", "SINGULARITYENV_LD_LIBRARY_PATH": "/mine"}
    _, language, libraries, _ = seen(plain, options=[], env=meant)
    assert language == "C"
    assert libraries.startswith("/mine")
    assert "greet" not in libraries


def test_a_host_s_variables_reach_the_program_as_they_did_before(small: Path) -> None:
    """Nothing of the way in which defaults are set stays behind."""
    command = [ENGINE, "-s", "exec", "--userns", small, "sh", "-c", "env; set"]
    done = run(command, env={"OTHER": "two words"})
    assert "OTHER=two words\n" in done.stdout
    assert "__default__" not in done.stdout
    assert "__line__" not in done.stdout
