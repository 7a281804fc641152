"""Layers that fit in no order, do nothing, or make no image that starts are refused at resolve."""

import re
from collections.abc import Callable

import pytest

from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError

from ....conftest import CHECK, HELLO

Resolve = Callable[..., Resolved]


def error_of(resolved: Resolve, files: dict[str, str], *options: str) -> str:
    with pytest.raises(InputError) as error:
        resolved(files, *options)
    return str(error.value)


def requiring(**layers: str) -> dict[str, str]:
    files = {
        f"layers/{name}/layer.yaml": f"summary: x\npath: [/x]\nrequires: [{requires}]\n"
        for name, requires in layers.items()
    }
    return {**files, "hello.yaml": f"summary: x\nbase: tiny\nlayers: [{', '.join(layers)}]\n"}


@pytest.mark.parametrize(
    ("layers", "cycles"),
    [
        ({"a": "a"}, ["a → a"]),
        ({"a": "b", "b": "a"}, ["a → b → a"]),
        ({"a": "c", "b": "a", "c": "b"}, ["a → c → b → a"]),
        ({"d": "", "a": "d, b", "b": "d, a"}, ["a → b → a"]),
        ({"a": "b", "b": "a", "c": "d", "d": "c"}, ["a → b → a", "c → d → c"]),
    ],
)
def test_every_cycle_is_shown(resolved: Resolve, layers: dict[str, str], cycles: list[str]) -> None:
    text = error_of(resolved, requiring(**layers))
    assert re.findall("layers require each other: (.*)\n", text) == cycles
    assert "put '- " not in text


def test_what_only_stands_too_late_is_no_cycle(resolved: Resolve) -> None:
    text = error_of(resolved, requiring(a="b", b=""))
    assert "require each other" not in text
    assert "put '- b' above '- a'" in text


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("requires: [tiny, pyton]", 18),
        ("conflicts: [pyton]", 13),
        ("variants: {cpu: {requires: [pyton]}}", 29),
    ],
)
def test_a_misspelled_layer_gets_a_suggestion(resolved: Resolve, key: str, column: int) -> None:
    text = error_of(resolved, {"layers/greet/layer.yaml": f"summary: x\n{key}\n"})
    assert "layer 'pyton' not found" in text
    assert f"layers/greet/layer.yaml:2:{column}" in text
    assert "did you mean 'python'?" in text
    assert "put '- pyton'" not in text


NOTHING = "summary: x\nparameters: {a: {type: string, default: x}}\nrequires: [tiny]\n"


@pytest.mark.parametrize(
    "files",
    [{}, {"setup.sh": "true\n"}, {"checks/_common.sh": "true\n"}, {"rocm/install.sh": "true\n"}],
)
def test_a_layer_that_does_nothing_is_refused(resolved: Resolve, files: dict[str, str]) -> None:
    own = {f"layers/idle/{name}": text for name, text in files.items()}
    recipe = "summary: x\nbase: tiny\nlayers:\n  - idle\n"
    text = error_of(resolved, {"layers/idle/layer.yaml": NOTHING, "hello.yaml": recipe, **own})
    assert "layer 'idle' does nothing" in text
    assert "hello.yaml:4:5" in text
    assert "add install.sh" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "file"),
    [
        ("environment: {A: b}", ""),
        ("path: [/x]", ""),
        ("packages: {apt: [sl]}", ""),
        ("binds: [{path: /x, reason: x}]", ""),
        ("provides: {glibc: '2.36'}", ""),
        ("", "install.sh"),
        ("", "finish.sh"),
        ("variants: {cpu: {install: x.sh}}", "x.sh"),
        ("variants: {cpu: {omit: not here}}", ""),
        ("", "checks/works.sh"),
    ],
)
def test_a_layer_that_does_something_is_taken(resolved: Resolve, key: str, file: str) -> None:
    recipe = "summary: x\nbase: tiny\nlayers: [busy]\n"
    files = {"layers/busy/layer.yaml": f"summary: x\n{key}\n", "hello.yaml": recipe}
    if file:
        files[f"layers/busy/{file}"] = CHECK + "true\n" if "checks" in file else "true\n"
    assert resolved(files)


BARE = HELLO["layers/tiny/layer.yaml"].replace(", include: [python3]", "")
DOCKED = "summary: x\nbootstrap: {cpu: {agent: docker, docker_image: 'python:3.12'}}\n"


def of_base(base: str, package: str = "sl") -> dict[str, str]:
    greet = f"summary: x\npackages: {{apt: [{package}]}}\n"
    return {"layers/tiny/layer.yaml": base, "layers/greet/layer.yaml": greet}


@pytest.mark.slow
@pytest.mark.parametrize("base", [BARE, DOCKED, BARE + "apt_versions: {python: '3.11'}\n"])
@pytest.mark.parametrize("package", ["sl", "python3-doc", "libpython3.11", "python-is-what"])
def test_an_image_without_python_is_refused(resolved: Resolve, base: str, package: str) -> None:
    text = error_of(resolved, of_base(base, package))
    assert "no layer installs Python" in text
    assert "Python 3.9 or newer" in text
    assert "add '- python'" in text


PACKAGES = ("python3", "python3-venv", "python3.11", "python3=3.11.2-1+b1", "python3.12-dev")


@pytest.mark.parametrize(
    ("base", "package"),
    [*((BARE, package) for package in PACKAGES), (DOCKED + "provides: {python: '3.12'}\n", "sl")],
)
def test_python_comes_with_its_package_or_with_the_base(
    resolved: Resolve, base: str, package: str
) -> None:
    assert resolved(of_base(base, package))


def test_a_python_that_is_too_old_is_refused(resolved: Resolve) -> None:
    text = error_of(resolved, of_base(DOCKED + "provides: {python: '3.8.10'}\n"))
    assert "layer 'tiny' has Python 3.8, and lumi-entry needs 3.9 or newer" in text


def test_the_shipped_bases_are_none_without_the_layer_python(resolved: Resolve) -> None:
    for base in ("debian", "ubuntu"):
        recipe = f"summary: x\nbase: {base}\nlayers: "
        assert "no layer installs Python" in error_of(
            resolved, {"hello.yaml": f"{recipe}[greet]\n"}
        )
        assert resolved({"hello.yaml": f"{recipe}[python, greet]\n"})
