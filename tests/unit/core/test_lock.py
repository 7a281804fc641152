"""A lock fits an image or says where not, and decides its keys."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.lock import (
    Lock,
    LockEntry,
    apply_lock,
    faults,
    file_name,
    in_order,
    lock_with,
    text_of,
)
from lumicontainer.core.model import GitSource, SdistSource, UrlSource
from lumicontainer.core.model.source import APT, DEBOOTSTRAP, GIT, IMAGE, KINDS, PYTHON, SDIST, URL
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.records import resolved_record
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.inputs import inputs, unpinned
from lumicontainer.errors import InputError
from lumicontainer.host.recipes import write_lock

Resolve = Callable[..., Resolved]
SHA, OTHER, COMMIT = "0" * 64, "1" * 64, "89abcdef01" * 4
INDEX = "https://wheels.example/"
GREET = {
    "layers/greet/layer.yaml": (
        "summary: says hello\nversion: '1.0'\n"
        "packages: {apt: [sl], python: [six==1.17.0]}\n"
        "pip_installs: [{package: torch, index_parameter: index}]\n"
        f"parameters: {{index: {{type: string, default: '{INDEX}'}}}}\n"
        "sources:\n"
        "  - {sdist: greet}\n"
        "  - {git: 'https://a.example/tool', commit: 89abcde, folder: tool}\n"
        "  - {url: 'https://a.example/x.tgz', file: x.tgz}\n"
    ),
    "layers/greet/install.sh": 'set -euo pipefail\nls "$sources"\n',
    "layers/greet/build.txt": "# what it is compiled with\ncython==3.2.4\n",
    "layers/greet/notes.txt": "no requirements: these are words\n",
}


def wheel(name: str, digest: str = SHA) -> str:
    return f"{name} --hash=sha256:{digest}"


ENTRIES = {
    "tiny": (LockEntry(DEBOOTSTRAP, "bookworm", pin=OTHER),),
    "greet": (
        LockEntry(APT, "sl", pin=f"sl=5.02-1+b1 --hash=sha256:{SHA}"),
        LockEntry(APT, "libtinfo6", pin="libtinfo6=6.4-4", dependency=True),
        LockEntry(PYTHON, "six==1.17.0", pin=wheel("six==1.17.0")),
        LockEntry(PYTHON, "sympy", pin=wheel("sympy==1.14.0"), dependency=True),
        LockEntry(PYTHON, "torch==1.0", pin=wheel("torch==1.0+cpu"), index_url=INDEX),
        LockEntry(PYTHON, "cython==3.2.4", "build.txt", wheel("cython==3.2.4", OTHER)),
        LockEntry(SDIST, "greet==1.0", pin=SHA),
        LockEntry(GIT, "https://a.example/tool", "tool", COMMIT),
        LockEntry(URL, "https://a.example/x.tgz", "x.tgz", OTHER),
    ),
}

OPEN = LockEntry(URL, "https://a.example/x.tgz", "x.tgz", open="it could not be downloaded")


@pytest.fixture
def greet(resolved: Resolve) -> Resolved:
    return resolved(GREET)


@pytest.fixture
def lock(greet: Resolved) -> Lock:
    return lock_with(greet, ENTRIES)


def with_entry(lock: Lock, entry: LockEntry) -> Lock:
    """Return a lock with another entry for the same input of ``greet``."""
    kept = [each for each in lock.of("greet") if each[:3] != entry[:3]]
    return lock._replace(layers={**lock.layers, "greet": in_order([*kept, entry])})


def test_everything_that_a_layer_takes_is_a_separate_input(greet: Resolved) -> None:
    assert {each.key for each in inputs(greet)} == Lock("", "", layers=ENTRIES).named().keys()


def test_what_no_hash_holds_is_reported(greet: Resolved) -> None:
    base, layer = greet.layers
    assert unpinned(greet, base) == ("debootstrap bookworm",)
    assert {"Python torch==1.0", "apt sl"} < {*unpinned(greet, layer)}


def test_a_whole_lock_has_no_faults_and_leaves_nothing_open(greet: Resolved, lock: Lock) -> None:
    assert faults(lock, greet) == []
    fast = apply_lock(greet, lock)
    assert [unpinned(fast, layer) for layer in fast.layers] == [(), ()]


def test_the_pins_take_the_place_of_what_they_pin(greet: Resolved, lock: Lock) -> None:
    fast = apply_lock(greet, lock)
    content = fast.layers[1].content
    assert fast.bootstrap.packages == OTHER
    assert content.apt == ("sl=5.02-1+b1", "libtinfo6=6.4-4")
    assert content.apt_hashes == (f"sl=5.02-1+b1 {SHA}",)
    assert content.python == ()
    assert content.locked == (wheel("six==1.17.0"), wheel("sympy==1.14.0"))
    assert content.indexed == {INDEX: (wheel("torch==1.0+cpu"),)}
    assert content.sources == (
        SdistSource("greet", SHA),
        GitSource("https://a.example/tool", COMMIT, "tool"),
        UrlSource("https://a.example/x.tgz", "x.tgz", OTHER),
    )
    files = {file.name: file.content.decode() for file in fast.layers[1].files}
    assert files["build.txt"] == wheel("cython==3.2.4", OTHER) + "\n"
    assert files["notes.txt"] == GREET["layers/greet/notes.txt"]


def test_a_locked_step_installs_by_hash_and_by_version_alone(greet: Resolved, lock: Lock) -> None:
    fast = apply_lock(greet, lock)
    step = make_plan(fast, ()).steps[0]
    assert f"sl=5.02-1+b1 {SHA}\n" in step.program
    installs = re.search(
        r"apt-files\.sh check \S+/apt-hashes\.txt\n"
        r"apt-get .* install --no-install-recommends sl=5\.02-1\+b1 libtinfo6=6\.4-4\n",
        step.program,
    )
    assert installs, step.program
    installs = re.findall(
        r"pip install --no-build-isolation (.*?) --requirement \S+/(\S+)\n", step.program
    )
    assert installs == [
        ("--no-deps --require-hashes", "0-locked.txt"),
        ("--require-hashes", "locked.txt"),
    ]
    assert wheel("six==1.17.0") in step.program
    assert f"--extra-index-url https://wheels.example/\n{wheel('torch==1.0+cpu')}\n" in step.program
    assert "pip install six==1.17.0" not in step.program
    assert f"https://a.example/tool {COMMIT} tool" in step.program
    assert f"https://a.example/x.tgz x.tgz {OTHER}" in step.program
    python = resolved_record(fast)["layers"]["greet"]["packages"]["python"]
    assert {"six==1.17.0", "sympy==1.14.0", "torch==1.0+cpu"} <= set(python)


def test_a_source_is_built_with_the_packages_of_its_lock_alone(greet: Resolved, lock: Lock) -> None:
    entries = (
        LockEntry(PYTHON, "held", pin=wheel("held==1.0"), dependency=True, index_url=INDEX),
        LockEntry(PYTHON, "scm", pin=wheel("scm==8.0"), dependency=True, builds="held"),
        # Another version of it is in the image.
        LockEntry(PYTHON, "scm", pin=wheel("scm==7.0"), dependency=True),
    )
    both = lock._replace(layers={**lock.layers, "greet": (*lock.of("greet"), *entries)})
    fast = apply_lock(greet, both)
    index = f"--extra-index-url {INDEX}"
    content = fast.layers[1].content
    assert content.built == (((index, wheel("held==1.0")), (wheel("scm==8.0"),)),)
    assert wheel("scm==7.0") in content.locked
    assert wheel("held==1.0") not in content.indexed[INDEX]
    step = make_plan(fast, ()).steps[0]
    assert re.search(r"\nbash \S+/build-source.sh \S+/0\n(?s:.*)/locked.txt\n", step.program)
    python = resolved_record(fast)["layers"]["greet"]["packages"]["python"]
    assert {"held==1.0", "scm==7.0"} <= {*python}
    assert "scm==8.0" not in python
    later = entries[1]._replace(pin=wheel("scm==8.1"))
    other = both._replace(layers={**both.layers, "greet": (*lock.of("greet"), entries[0], later)})
    assert make_plan(apply_lock(greet, other), ()).steps[0].key != step.key


def test_a_lock_gives_other_keys(greet: Resolved, lock: Lock) -> None:
    before, fast = make_plan(greet, ()), make_plan(apply_lock(greet, lock), ())
    assert fast.base_key != before.base_key
    assert not {step.key for step in fast.steps} & {step.key for step in before.steps}
    assert make_plan(greet, ()) == before


def test_the_origin_of_a_pin_decides_nothing(greet: Resolved, lock: Lock) -> None:
    (entry,) = (each for each in lock.of("greet") if each.kind == GIT)
    changed = with_entry(lock, entry._replace(origin="a friend"))
    assert apply_lock(greet, changed) == apply_lock(greet, lock)


def test_an_image_is_held_by_its_digest(resolved: Resolve) -> None:
    base = "summary: x\nbootstrap: {cpu: {agent: docker, docker_image: 'ubuntu:noble'}}\n"
    base += 'provides: {python: "3.12"}\n'
    resolution = resolved({"layers/tiny/layer.yaml": base})
    pin = f"ubuntu@sha256:{SHA}"
    lock = lock_with(resolution, {"tiny": [LockEntry(IMAGE, "ubuntu:noble", pin=pin)]})
    assert faults(lock, resolution) == []
    fast = apply_lock(resolution, lock)
    assert fast.bootstrap.image == pin
    assert unpinned(fast, fast.layers[0]) == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_input_without_an_entry_is_a_fault(greet: Resolved, lock: Lock, kind: str) -> None:
    rows = lock.layers.items()
    kept = {layer: tuple(each for each in row if each.kind != kind) for layer, row in rows}
    listed = faults(lock._replace(layers=kept), greet)
    assert bool(listed) == (kind != IMAGE)
    assert all(each.endswith("it has no entry") for each in listed)


def test_what_is_open_is_a_fault_with_its_reason(greet: Resolved, lock: Lock) -> None:
    (fault,) = faults(with_entry(lock, OPEN), greet)
    assert fault.endswith("x.tgz from https://a.example/x.tgz: open, it could not be downloaded")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "listed"),
    [
        ("six==1.17.0", "six==1.16.0", "Python six==1.16.0: it has no entry"),
        ("commit: 89abcde", "commit: '0123456'", f"commit 0123456: the entry is another, {COMMIT}"),
        ("apt: [sl]", "apt: []", "apt sl: the image has no such input any more"),
        ("{sdist: greet}", f"{{sdist: greet, sha256: '{OTHER}'}}", "the entry is another"),
        ("version: '1.0'", "version: '1.1'", "Python torch==1.1: it has no entry"),
    ],
)
def test_a_recipe_that_changed_has_a_stale_lock(
    resolved: Resolve, lock: Lock, old: str, new: str, listed: str
) -> None:
    layer = GREET["layers/greet/layer.yaml"]
    assert old in layer
    changed = resolved({**GREET, "layers/greet/layer.yaml": layer.replace(old, new)})
    assert [each for each in faults(lock, changed) if listed in each]


def test_a_requirement_of_a_file_that_changed_is_a_fault(resolved: Resolve, lock: Lock) -> None:
    changed = resolved({**GREET, "layers/greet/build.txt": "cython==3.2.5\n"})
    assert "greet: Python cython==3.2.5 (build.txt): it has no entry" in faults(lock, changed)


def test_a_version_of_a_debian_package_agrees_with_its_pin(resolved: Resolve, lock: Lock) -> None:
    pin = "sl=5.02-1+b1"
    layer = GREET["layers/greet/layer.yaml"].replace("apt: [sl]", f"apt: [{pin}]")
    named = {LockEntry(APT, pin, pin=f"{pin} --hash=sha256:{SHA}")}
    others = {each for each in lock.of("greet") if each.name != "sl"}
    changed = lock._replace(layers={**lock.layers, "greet": in_order(named | others)})
    assert faults(changed, resolved({**GREET, "layers/greet/layer.yaml": layer})) == []


def test_a_longer_commit_that_begins_so_is_no_fault(resolved: Resolve, lock: Lock) -> None:
    layer = GREET["layers/greet/layer.yaml"].replace("89abcde,", f"{COMMIT},")
    assert faults(lock, resolved({**GREET, "layers/greet/layer.yaml": layer})) == []


def test_a_lock_of_another_index_is_stale(resolved: Resolve, lock: Lock) -> None:
    other = resolved(GREET, "greet.index=https://wheels.example/rocm")
    (fault,) = faults(lock, other)
    assert fault.endswith("torch==1.0: the entry is of another index, https://wheels.example/")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "listed"),
    [
        ("build.txt", "a==1  # why\n", ["a==1"]),
        ("build.txt", "a==1\n  # why\n", ["a==1"]),
        ("build.txt", "# why\na==1", ["a==1"]),
        ("build.txt", "a==1\nb>=2\nc[x]==1\n", ["a==1", "b>=2", "c[x]==1"]),
        ("more/build.txt", "b>=2\n", ["b>=2"]),
        ("notes.txt", "no requirements: these are words\n", []),
        ("words.txt", "a\nb\n", []),
        ("words.txt", "a==1\nneeds a compiler\n", []),
    ],
)
def test_the_requirements_of_a_file_are_listed_where_pip_would_read_all_of_it(
    resolved: Resolve, file: str, text: str, listed: list[str]
) -> None:
    layer = resolved({**GREET, f"layers/greet/{file}": text}).layers[1]
    lines = [each for each in unpinned(resolved(), layer) if each.endswith(f"({file})")]
    assert lines == [f"Python {name} ({file})" for name in listed]


def test_a_lock_that_could_not_be_read_again_is_not_written(lock: Lock, tmp_path: Path) -> None:
    path = tmp_path / "x.lock.yaml"
    write_lock(lock, path)
    before = path.read_bytes()
    entry = LockEntry(PYTHON, "six==1.17.0", pin=wheel("six==1.17.0"), index_url="file:///srv")
    with pytest.raises(InputError, match="URL"):
        write_lock(with_entry(lock, entry), path)
    assert path.read_bytes() == before
    assert list(tmp_path.glob(".*")) == []


def test_the_lock_of_another_image_is_refused(greet: Resolved, lock: Lock) -> None:
    other = lock._replace(recipe="other", profile="new")
    assert faults(other, greet) == ["it is the lock of other workstation new"]


def test_the_file_is_named_after_recipe_and_platform(greet: Resolved) -> None:
    assert file_name(greet) == "hello.workstation.lock.yaml"


def test_a_lock_reads_like_a_recipe(lock: Lock) -> None:
    text = text_of(with_entry(lock, OPEN))
    first = f'  tiny:\n    - debootstrap: bookworm\n      pin: "{OTHER}"\n'
    assert f"recipe: hello\nplatform: workstation\nlayers:\n{first}  greet:\n" in text
    assert "    - apt: libtinfo6\n      dependency: true\n      pin: libtinfo6=6.4-4\n" in text
    assert text.endswith("      file: x.tgz\n      unpinned: it could not be downloaded\n")


def test_pins_are_counted_without_what_is_not_pinned() -> None:
    entries = (LockEntry(APT, "a", pin="a=1"), LockEntry(APT, "b", open="why"))
    assert Lock("a", "b", {"c": entries, "d": entries[:1]}).pins() == 2
