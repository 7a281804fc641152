"""Variables of layers arrive in a container as written, and each engine reads them alike."""

import subprocess
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumicontainer.core.apptainer_syntax import hazards
from lumicontainer.core.model import Bootstrap
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.render.render import ImageDescription, render
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError

from ....conftest import HELLO, STRANGE

BASE = Bootstrap("docker", image="debian:bookworm")


def subject(environment: Mapping[str, str], *lists: str) -> ImageDescription:
    return ImageDescription("x", "x", "x", "", BASE, environment, (), lists)


def seen(
    environment: Mapping[str, str], *lists: str, shell: str = "sh", before: str = ""
) -> dict[str, str]:
    """Return the variables that a shell has after the lines that set them."""
    # As the engine does, which leaves nothing exported that it did not find.
    script = f"{before}\n{subject(environment, *lists).fill('environment.sh.j2')}\nenv -0"
    done = subprocess.run([shell, "-c", script], capture_output=True, check=True, env={})
    rows = (row.partition(b"=") for row in done.stdout.split(b"\0"))
    return {name.decode(): value.decode() for name, _, value in rows}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_value_arrives_as_it_was_written(shell: str) -> None:
    variables = seen(STRANGE, shell=shell)
    assert variables.items() >= STRANGE.items()
    assert not [name for name in variables if name.startswith("__")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LANG", "LD_LIBRARY_PATH"])
@pytest.mark.parametrize("value", STRANGE.values())
def test_a_constant_arrives_as_it_was_written(name: str, value: str) -> None:
    assert seen({name: value})[name] == value


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=60))
def test_any_text_arrives(values: list[str]) -> None:
    variables = {f"X{number}": value for number, value in enumerate(values)}
    assert seen(variables).items() >= variables.items()
    assert not list(hazards(subject(variables).fill("environment.sh.j2")))


@pytest.mark.slow
def test_what_the_user_exported_stays() -> None:
    before = "export __exported_env__='A=mine'; A=unset"
    variables = seen({"A": "x\ny", "B": "~/b"}, before=before)
    assert (variables.get("A"), variables["B"]) == (None, "~/b")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LD_PRELOAD", "ROCM_PATH", "ROCM_HOME"])
def test_what_only_the_image_has_wins_over_what_the_user_exported(name: str) -> None:
    before = f"export __exported_env__='{name}=the-hosts'"
    assert seen({name: "the-images"}, before=before)[name] == "the-images"


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "/a:/b"),
        ("LIBRARIES=/base", "/a:/b:/base"),
        ("__exported_env__='X=1\nLIBRARIES=/my own:/v\nY=2'; LIBRARIES=/base", "/a:/b:/my own:/v"),
        ("__exported_env__='LIBRARIES='; LIBRARIES=/base", "/a:/b"),
        ("__exported_env__='OTHER_LIBRARIES=/x'", "/a:/b"),
    ],
)
def test_prepended_folders_come_before_the_users_or_else_the_bases(
    shell: str, before: str, expected: str
) -> None:
    variables = seen({"LIBRARIES": "/a:/b"}, "LIBRARIES", shell=shell, before=f"set -eu; {before}")
    assert variables["LIBRARIES"] == expected
    assert [name for name in variables if name.startswith("__")] == []


def test_a_dockerfile_puts_folders_before_its_bases(
    resolved: Callable[..., Resolved],
) -> None:
    layer = "summary: x\nprepend: {LIBRARIES: [/opt/a, /opt/b]}\n"
    plan = make_plan(resolved({"layers/greet/layer.yaml": layer}), [])
    line = 'ENV LIBRARIES="/opt/a:/opt/b"${LIBRARIES:+:$LIBRARIES}\n'
    assert line in render(plan, "dockerfile", mirror="")


def test_no_value_is_a_line_of_the_definition_s_own() -> None:
    text = subject(STRANGE).fill("apptainer.def.j2", mirror="", programs=())
    sections = [line for line in text.splitlines() if line.startswith("%")]
    assert sections == ["%labels", "%help", "%environment", "%runscript"]
    assert not list(hazards(subject(STRANGE).fill("environment.sh.j2")))


def environment(value: str) -> dict[str, str]:
    return {"layers/greet/layer.yaml": f"summary: x\nenvironment: {{VALUE: {value}}}\n"}


def test_only_a_definition_has_values_of_several_lines(resolved: Callable[..., Resolved]) -> None:
    plan = make_plan(resolved(environment(r'"a\n%b"')), [])
    assert "export VALUE=" in render(plan, "def", mirror="")
    with pytest.raises(InputError, match=r"(?s)write 'VALUE' to a Dockerfile.*--format def"):
        render(plan, "dockerfile", mirror="")


def test_a_dockerfile_holds_every_value_of_one_line(resolved: Callable[..., Resolved]) -> None:
    plan = make_plan(resolved(environment(r'"~/%x \\ \" $(id) \t"')), [])
    assert 'ENV VALUE="~/%x \\\\ \\" \\$(id) \t"\n' in render(plan, "dockerfile", mirror="")


def test_what_no_variable_can_hold_is_refused(resolved: Callable[..., Resolved]) -> None:
    with pytest.raises(InputError, match=r"(?s)layer\.yaml:2:22.*base64"):
        resolved(environment(r'"\0"'))


def test_bytes_that_are_no_text_are_refused(resolved: Callable[..., Resolved]) -> None:
    with pytest.raises(InputError, match="base64"):
        resolved(None, "greet.greeting=\udcff")


@pytest.mark.parametrize("release", ["bookworm", "trixie", "sid"])
def test_a_dockerfile_begins_with_no_image_of_another_release(
    resolved: Callable[..., Resolved], release: str
) -> None:
    base = HELLO["layers/tiny/layer.yaml"]
    base += (
        "version: bookworm\nversions: {bookworm: {}, trixie: {}, sid: {docker_image: 'd:sid'}}\n"
    )
    plan = make_plan(resolved({"layers/tiny/layer.yaml": base}, f"tiny.version={release}"), ())
    if release == "trixie":
        with pytest.raises(InputError, match="debian:bookworm, with which Docker begins, is bookw"):
            render(plan, "dockerfile", mirror="")
    else:
        image = {"bookworm": "debian:bookworm", "sid": "d:sid"}[release]
        assert f"\nARG BASE={image}\n" in render(plan, "dockerfile", mirror="")
