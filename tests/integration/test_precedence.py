"""Values of the user win over values of the image, however they are set."""

import json
import re
from pathlib import Path

import pytest

from ..conftest import STRANGE
from .conftest import (
    ENGINE,
    SMALL,
    STRANGE_LINES,
    check_output,
    inside,
    lumicontainer,
    run,
    strange_values,
    write_small,
)

NAME = "GREETING_STYLE"
"""A layer of the image sets it to ``plain``."""
SHOW = f'printf "%s|" "${{{NAME}-unset}}" "$LANG" "$LD_LIBRARY_PATH"; printf "%s\\n" "$PATH"'

EXPORTED, PREFIXED = {NAME: "exported"}, {f"SINGULARITYENV_{NAME}": "prefixed"}
OPTION, CLEAN = ["--env", f"{NAME}=option"], ["--cleanenv"]
HOSTILE, LINES = "it's $(id) `id` * a=b", f"one\n{NAME}_=two"
CASES = {
    # what: (options of the engine, environment of the host, the value in the container)
    "nothing": ([], {}, "plain"),
    "a plain export": ([], EXPORTED, "exported"),
    "a plain export of what a shell would read": ([], {NAME: HOSTILE}, HOSTILE),
    "a plain export of two lines": ([], {NAME: LINES}, LINES),
    "exported empty": ([], {NAME: ""}, ""),
    "SINGULARITYENV_": ([], PREFIXED, "prefixed"),
    "--env": (OPTION, {}, "option"),
    "a plain export and SINGULARITYENV_": ([], EXPORTED | PREFIXED, "prefixed"),
    "SINGULARITYENV_ and --env": (OPTION, PREFIXED, "option"),
    "a plain export and --env": (OPTION, EXPORTED, "option"),
    "all three": (OPTION, EXPORTED | PREFIXED, "option"),
    "--cleanenv and a plain export": (CLEAN, EXPORTED, "plain"),
    "--cleanenv and SINGULARITYENV_": (CLEAN, PREFIXED, "prefixed"),
    "--cleanenv and --env": ([*CLEAN, *OPTION], {}, "option"),
    "--containall": (["--containall"], EXPORTED, "plain"),
    "--no-home": (["--no-home"], {}, "plain"),
    "a variable whose name ends like it": ([], {f"MY_{NAME}": "mine"}, "plain"),
    "a variable whose name begins like it": ([], {f"{NAME}_MORE": "mine"}, "plain"),
    "a variable whose value names it": ([], {"OTHER": f"x {NAME}=mine"}, "plain"),
    "a variable with a line that sets it": ([], {"OTHER": f"x\n{NAME}=mine"}, "plain"),
}


def seen(
    image: Path, options: list[str], env: dict[str, str], start: tuple[str, ...] = ("exec",)
) -> list[str]:
    """Return the variable, LANG, LD_LIBRARY_PATH and PATH as the container's program sees them."""
    verb, *divider = start
    words = ["-s", verb, "--userns", *options, image, *divider, "sh", "-c", SHOW]
    done = run([ENGINE, *words], env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.rstrip("\n").rsplit("|", 3)


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
    check_output(ENGINE, "build", "--fakeroot", "--sandbox", folder / "tree", definition)
    return folder / "tree"


@pytest.mark.parametrize("built", ["small", "plain"])
@pytest.mark.parametrize("case", CASES)
def test_what_the_user_set_wins_over_the_image(
    case: str, built: str, request: pytest.FixtureRequest
) -> None:
    options, env, expected = CASES[case]
    value, *_, path = seen(request.getfixturevalue(built), options, env)
    assert value == expected
    assert path.startswith("/opt/greet/bin:")


def test_it_wins_in_run_as_in_exec(small: Path) -> None:
    value, *_, path = seen(small, OPTION, EXPORTED | PREFIXED, start=("run", "--"))
    assert value == "option"
    assert path.startswith("/opt/greet/bin:")


def test_strange_values_arrive_in_an_image_that_the_engine_built_alone(plain: Path) -> None:
    assert strange_values([ENGINE, "-s", "exec", "--userns", plain]) == STRANGE


@pytest.mark.parametrize("options", [[], ["--cleanenv"], ["--containall"]])
def test_strange_values_arrive_in_an_image(small: Path, options: list[str]) -> None:
    values = strange_values([ENGINE, "-s", "exec", "--userns", *options, small])
    assert values == STRANGE_LINES


def test_what_names_files_and_locales_of_the_host_is_the_image_s_own(plain: Path) -> None:
    env = {"LANG": "en_US.UTF-8", "LD_LIBRARY_PATH": "/usr/lib64/host", "PATH": "/host:/usr/bin"}
    env["PATH"] += f":{Path(ENGINE).parent}"
    _, language, libraries, path = seen(plain, [], env)
    assert language == "C.UTF-8"
    assert libraries.startswith("/opt/greet/lib")
    assert "host" not in libraries + path


def test_even_that_is_left_to_a_user_who_means_it(plain: Path) -> None:
    meant = {"SINGULARITYENV_LANG": "C", "SINGULARITYENV_LD_LIBRARY_PATH": "/mine"}
    _, language, libraries, _ = seen(plain, [], meant)
    assert language == "C"
    assert libraries.startswith("/mine")
    assert "greet" not in libraries


def test_a_host_s_variables_reach_the_program_as_they_did_before(small: Path) -> None:
    """Nothing of the way in which defaults are set stays behind."""
    printed = inside(small, "sh", "-c", "env; set", env={"OTHER": "two words"})
    assert "OTHER=two words\n" in printed
    assert "__default__" not in printed
    assert "__line__" not in printed
