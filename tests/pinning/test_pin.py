"""A lock is made layer by layer, and what cannot be asked is open in it with the reason."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lumicontainer.core.lock import Lock, apply_lock, faults
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError
from lumicontainer.host.uv import find_uv
from lumicontainer.pinning import apt
from lumicontainer.pinning.apt import Answers
from lumicontainer.pinning.pin import make_lock
from lumicontainer.system.terminal.progress import Progress

from ..unit.host.test_fetch import UPSTREAM, Upstream
from ..unit.pinning.test_pin import registry
from .test_wheels import Offer, list_md5_alone, offer, offer_all

__all__ = ["offer", "registry"]

Resolve = Callable[..., Resolved]
Locked = Callable[..., tuple[Lock, Resolved]]
DIGEST = f"ubuntu@sha256:{'a' * 64}"
BASE = (
    "summary: x\nbootstrap: {cpu: {agent: docker, docker_image: 'IMAGE'}}\n"
    'provides: {python: "3.11", glibc: "2.36"}\n'
)


@pytest.fixture
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(printed: io.StringIO) -> Iterator[Progress]:
    with Progress("plain", stream=printed) as progress:
        yield progress


@pytest.fixture
def locked(resolved: Resolve, progress: Progress) -> Locked:
    """Lock the recipe ``hello`` of given layers, on an image that the recipe pins."""

    def make(layers: dict[str, str], image: str = DIGEST, **mirrors: str) -> tuple[Lock, Resolved]:
        names = list(dict.fromkeys(name.split("/")[0] for name in layers))
        files = {
            "hello.yaml": f"summary: x\nbase: tiny\nlayers: [{', '.join(names)}]\n",
            "layers/tiny/layer.yaml": BASE.replace("IMAGE", image),
            **{f"layers/{name}": text for name, text in layers.items()},
        }
        recipe = resolved(files)
        made = make_lock(recipe, plan_of=_plan, mirrors=mirrors, progress=progress)
        return made, recipe

    return make


def _plan(resolved: Resolved) -> Plan:
    return make_plan(resolved, ())


def pins(lock: Lock, layer: str) -> dict[str, str]:
    """Return the Python pins of a layer by name, dependencies in parentheses."""
    return {
        f"({each.name})" if each.dependency else each.name: each.pin.partition(" ")[0]
        for each in lock.of(layer)
    }


def python(*requirements: str, more: str = "") -> str:
    return f"summary: x\npackages: {{python: [{', '.join(requirements)}]}}\n{more}"


def test_what_a_layer_below_has_is_pinned_there_alone(locked: Locked, offer: Offer) -> None:
    offer_all(offer, "tool 1.0 lib", "lib 1.5", "lib 2.0")
    lock, recipe = locked({"one/layer.yaml": python("lib==1.5"), "two/layer.yaml": python("tool")})
    assert pins(lock, "one") == {"lib==1.5": "lib==1.5"}
    assert pins(lock, "two") == {"tool": "tool==1.0"}
    assert faults(lock, recipe) == []


def test_a_compiler_has_only_the_layers_that_it_requires(locked: Locked, offer: Offer) -> None:
    offer_all(offer, "tool 1.0 lib", "make 3.0 lib", "lib 1.5", "lib 2.0")
    layers = {
        "one/layer.yaml": python("lib==1.5"),
        "two/layer.yaml": python("tool==1.0"),
        "two/compile.sh": "true\n",
        "two/build.txt": "make==3.0\n",
    }
    lock, recipe = locked(layers)
    assert set(pins(lock, "two")) == {"tool==1.0", "make==3.0", "(lib)"}
    libs = {each.where: each.pin.partition(" ")[0] for each in lock.of("two") if each.name == "lib"}
    assert libs == {"": "lib==1.5", "build.txt": "lib==2.0"}
    assert faults(lock, recipe) == []


@pytest.mark.parametrize("above", ["2.0", "1.5"], ids=["another", "the same"])
def test_a_layer_may_want_what_one_below_has(locked: Locked, offer: Offer, above: str) -> None:
    offer_all(offer, "lib 1.5", "lib 2.0")
    lines = {"one": "lib==1.5", "two": f"lib=={above}"}
    lock, recipe = locked({f"{name}/layer.yaml": python(text) for name, text in lines.items()})
    assert {layer: pins(lock, layer) for layer in lines} == {n: {t: t} for n, t in lines.items()}
    assert (lock.of("one") == lock.of("two")) == (above == "1.5")
    assert faults(lock, recipe) == []


def test_what_a_script_takes_is_asked_for_with_its_index(locked: Locked, offer: Offer) -> None:
    offer_all(offer, "torch 1.0+cpu lib", "lib 1.5")
    own = (
        "version: '1.0'\npip_installs: [{package: torch, index_parameter: index}]\n"
        "parameters: {index: {type: string, default: 'https://wheels.example/cpu'}}\n"
    )
    lock, recipe = locked({"one/layer.yaml": python("lib==1.5", more=own)})
    assert pins(lock, "one") == {"lib==1.5": "lib==1.5", "torch==1.0": "torch==1.0+cpu"}
    indexes = {each.name: each.index_url for each in lock.of("one")}
    assert indexes == {"lib==1.5": "", "torch==1.0": "https://wheels.example/cpu"}
    assert faults(lock, recipe) == []


CONDITIONS = """\
tool==1.0
lib==1.4; python_version < "3.11"
lost==1.0; sys_platform == "win32"
more==1.0; python_version >= "3.11"
"""


@pytest.mark.parametrize("program", ["uv", "pip"])
def test_a_line_for_another_python_or_system_is_not_pinned(
    locked: Locked, offer: Offer, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    if program == "pip":
        monkeypatch.setattr("lumicontainer.pinning.uv.find_uv", lambda: None)
    offer_all(offer, "tool 1.0 lib", "lib 1.4", "lib 1.5", "more 1.0")
    layers = {
        "one/layer.yaml": "summary: x\n",
        "one/requirements.txt": CONDITIONS,
        "one/install.sh": "pip install -r requirements.txt\n",
    }
    lock, recipe = locked(layers)
    more = CONDITIONS.splitlines()[-1]
    assert pins(lock, "one") == {"tool==1.0": "tool==1.0", more: "more==1.0", "(lib)": "lib==1.5"}
    assert faults(lock, recipe) == []


def test_a_file_for_other_systems_alone_stays_as_it_is(locked: Locked, offer: Offer) -> None:
    offer_all(offer, "lib 1.5")
    text = 'lost==1.0; sys_platform == "win32"\n'
    layers = {"one/layer.yaml": python("lib"), "one/requirements.txt": text}
    lock, recipe = locked({**layers, "one/install.sh": "pip install -r requirements.txt\n"})
    assert pins(lock, "one") == {"lib": "lib==1.5"}
    assert faults(lock, recipe) == []
    (file,) = [each for each in apply_lock(recipe, lock).layers[1].files if each.name[-1] == "t"]
    assert file.content.decode() == text


def test_what_no_index_has_is_open(locked: Locked, offer: Offer, printed: io.StringIO) -> None:
    offer_all(offer, "lib 1.4", "lib 1.5")
    lines = {"one": "lost==1", "two": "lib==9", "three": "lib==1.5"}
    lock, recipe = locked({f"{name}/layer.yaml": python(text) for name, text in lines.items()})
    why = "the configured index has no wheel of it"
    assert lock.of("one")[0].open == why
    assert lock.of("two")[0].open == f"{why}; it has 1.4, 1.5"
    assert pins(lock, "three") == {"lib==1.5": "lib==1.5"}
    assert [each for each in faults(lock, recipe) if each.startswith("one: Python lost==1: open")]
    assert f"resolver of Python packages: {find_uv()}\n" in printed.getvalue()
    assert "note: pip resolves lost==1, because uv failed: No solution found" in printed.getvalue()
    assert "not pinned: one: Python lost==1: " in printed.getvalue()


def test_without_uv_the_lock_says_that_pip_resolves(
    locked: Locked, monkeypatch: pytest.MonkeyPatch, printed: io.StringIO
) -> None:
    monkeypatch.setattr("lumicontainer.pinning.uv.find_uv", lambda: None)
    locked({"one/layer.yaml": python("lost==1")})
    assert "resolver of Python packages: pip: uv not found" in printed.getvalue()


def test_a_package_that_apt_does_not_know_is_wrong_at_its_place(
    resolved: Resolve, progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "E: Unable to locate package libfabric-devel\n"
    answers = Answers("0" * 64, {}, refused={"greet": said}, names=["libfabric-dev", "sl"])
    monkeypatch.setattr(apt, "ask", lambda *_: answers)
    layer = "summary: x\npackages: {apt: [libfabric-devel]}\n"
    recipe = resolved({"layers/greet/layer.yaml": layer})
    with pytest.raises(InputError, match="'libfabric-devel' not found in apt's sources") as error:
        make_lock(recipe, plan_of=_plan, mirrors={}, progress=progress)
    (problem,) = error.value.problems
    assert problem.where.endswith("greet/layer.yaml:2:18")
    assert problem.hint == "did you mean 'libfabric-dev'?"


def test_what_has_no_sha256_in_the_index_is_unpinned_a_dependency_too(
    locked: Locked, offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_all(offer, "tool 1.0 lib", "lib 1.5")
    list_md5_alone(tmp_path, "lib-1.5-py3-none-any.whl", monkeypatch)
    lock, recipe = locked({"one/layer.yaml": python("tool"), "two/layer.yaml": python("lib")})
    assert pins(lock, "one") == {"tool": "tool==1.0", "(lib)": ""}
    why = "open, its index has no sha256 of it"
    assert faults(lock, recipe) == [f"two: Python lib: {why}", f"one: lib: {why}"]


def test_what_a_layer_below_provides_otherwise_has_no_pin(locked: Locked, offer: Offer) -> None:
    offer("lib", "1.5")
    source = f"{{url: '{UPSTREAM}x', file: lib-1.5-py3-none-any.whl, sha256: '{'0' * 64}'}}"
    layers = {
        "one/layer.yaml": f"summary: x\nsources: [{source}]\n",
        "one/install.sh": 'pip install "$sources/lib-1.5-py3-none-any.whl"\n',
    }
    lock, _ = locked({**layers, "two/layer.yaml": python("lib")})
    assert [each.open for each in lock.of("two")] == ["a layer below provides it, from no index"]


def test_without_a_known_python_nothing_is_asked(
    resolved: Resolve, progress: Progress, offer: Offer
) -> None:
    offer("lib", "1.5")
    base = BASE.replace("IMAGE", DIGEST).partition("provides")[0] + "packages: {apt: [python3]}\n"
    layers = {"layers/tiny/layer.yaml": base, "layers/greet/layer.yaml": python("lib==1.5")}
    recipe = resolved(layers)
    lock = make_lock(recipe, plan_of=_plan, mirrors={}, progress=progress)
    assert "which Python the image has" in lock.of("greet")[0].open


def test_images_and_sources_have_mirrors(locked: Locked, registry: str, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path)
    commit = upstream.git("rev-parse", "HEAD", at=upstream.repository("tool", a="x"))
    (upstream.served / "x.tgz").write_bytes(b"x")
    layer = (
        f"summary: x\nsources:\n  - {{git: '{UPSTREAM}tool', commit: '{commit[:7]}', folder: t}}\n"
        f"  - {{url: '{UPSTREAM}x.tgz', file: x.tgz}}\n"
        f"  - {{url: '{UPSTREAM}gone.tgz', file: gone.tgz}}\n"
    )
    layers = {"one/layer.yaml": layer, "one/install.sh": 'ls "$sources"\n'}
    mirrors = {"docker://docker.io/": registry, **upstream.mirrors}
    lock, recipe = locked(layers, "ubuntu:noble", **mirrors)
    assert lock.of("tiny")[0].pin.startswith("ubuntu@sha256:")
    assert {each.where: each.pin[:7] or each.open for each in lock.of("one")} == {
        "t": commit[:7],
        "x.tgz": "2d71164",
        "gone.tgz": "it could not be downloaded",
    }
    assert len(faults(lock, recipe)) == 1
