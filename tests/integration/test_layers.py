"""Layers make the tree that a plain build makes, and a change rebuilds only what it must."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.cache.objects import LAYER
from lumicontainer.cache.store import Cache
from lumicontainer.cache.usage import uses
from lumicontainer.constants import EPOCH
from lumicontainer.system.files.user_cache import cache_root

from .conftest import (
    COMPRESSIONS,
    ENGINE,
    NASTY,
    PLATFORMS,
    TREES,
    NewCache,
    check_output,
    described,
    events,
    in_namespace,
    inside,
    lumicontainer,
    run,
    unpacked,
    write_small,
)
from .processes import PATIENCE, SECONDS, Gate, name_of, started, until

Tree = dict[str, list[Any]]


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the recipe of nasty layers in all compressions."""
    folder = tmp_path_factory.mktemp("nasty")
    for each in COMPRESSIONS:
        # No check of an image would let pass what these layers hold on purpose.
        words = ("--no-verify", "--recipes", NASTY, "--platform", PLATFORMS[each])
        lumicontainer("build", "nasty", *words, "--output", folder / f"{each}.sif", code=0)
    return {each: folder / f"{each}.sif" for each in COMPRESSIONS}


@pytest.fixture(scope="module")
def trees(nasty: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tree]:
    folder = tmp_path_factory.mktemp("trees")
    return {each: described(unpacked(image, folder / each)) for each, image in nasty.items()}


def layers_of(image: Path) -> list[Path]:
    """Return the squashfs of the layers of an image, the lowest first."""
    cache = Cache(cache_root())
    (names,) = (use.objects for use in uses(cache) if use.image == str(image))
    entries = [entry for entry in map(cache.entry, names) if entry]
    return [entry.layer for entry in entries if entry.kind == "layer"]


def differences(one: Tree, other: Tree) -> dict[str, tuple[object, object]]:
    names = sorted(one.keys() | other.keys())
    rows = {name: (one.get(name), other.get(name)) for name in names}
    return {name: (left, right) for name, (left, right) in rows.items() if left != right}


NAMING_THE_PLATFORM = {f"opt/lumicontainer/{name}" for name in ("resolved.json", "sha256sums")}


def test_an_image_holds_the_same_tree_in_each_compression(trees: dict[str, Tree]) -> None:
    assert len(trees["gzip"]) > 6000
    for tree in trees.values():
        assert differences(tree, trees["gzip"]).keys() <= NAMING_THE_PLATFORM


def test_layers_that_lie_over_each_other_make_the_tree_of_the_image(
    nasty: dict[str, Path], trees: dict[str, Tree], tmp_path: Path
) -> None:
    """The layers are unpacked one over the other by programs that are not ours."""
    stack = layers_of(nasty[COMPRESSIONS[0]])
    assert len(stack) > 5
    words = [word for layer in stack for word in (layer, 0)]
    in_namespace(sys.executable, TREES, "unpack", tmp_path / "tree", *words)
    seen = described(tmp_path / "tree")
    # The last layer of an image has its notes, and is in no cache.
    assert {
        path: rows
        for path, rows in differences(seen, trees[COMPRESSIONS[0]]).items()
        if not path.startswith(".singularity.d")
    } == {}


def test_layers_make_the_tree_of_a_plain_build(
    trees: dict[str, Tree], base_object: Path, tmp_path: Path
) -> None:
    definition = tmp_path / "nasty.def"
    rendered = lumicontainer("render", "nasty", "--recipes", NASTY).stdout
    # The engine makes a base in builds of layers, too.
    begins = f"Bootstrap: localimage\nFrom: {base_object / LAYER}\n"
    made_by = "Bootstrap: debootstrap\nOSVersion: .*\nMirrorURL: .*\nInclude: .*\n"
    text, count = re.subn(made_by, begins, rendered)
    assert count == 1
    definition.write_text(text)
    # How well the image is compressed does not matter, and takes most of the packing.
    quick = ["--mksquashfs-args", "-Xcompression-level 1"] if ENGINE.endswith("apptainer") else []
    command = [ENGINE, "build", "--fakeroot", *quick, tmp_path / "plain.sif", definition]
    # Without it the accounts and the password file hold the day of the build.
    check_output(*command, env={"SOURCE_DATE_EPOCH": str(EPOCH)})
    plain = described(unpacked(tmp_path / "plain.sif", tmp_path / "tree"))
    assert differences(trees[COMPRESSIONS[0]], plain) == {}


HIDDEN = ("proc", "sys", "dev", "tmp", "var/tmp", "root", "home", "usr/share/zoneinfo")
MOUNTED = tuple(f"etc/{name}" for name in ("resolv.conf", "hosts", "localtime", "passwd", "group"))


CONTAINED = ("--contain", "--no-home", "--pwd", "/")
"""Options by which the engine makes no folder for what it would mount."""


def seen_inside(image: Path) -> Tree:
    """Return what a program in an image sees of its tree, but for owners, who are not mapped."""
    words = ("describe", "/", ".singularity.d", *HIDDEN, *MOUNTED)
    text = inside(image, "python3", "-c", TREES.read_text(), *words, options=CONTAINED)
    return {name: [row[0], *row[3:]] for name, row in json.loads(text).items()}


def test_a_program_inside_sees_the_same_tree_in_each_compression(nasty: dict[str, Path]) -> None:
    first, *others = (seen_inside(image) for image in nasty.values())
    assert len(first) > 5000
    for other in others:
        assert differences(other, first).keys() <= NAMING_THE_PLATFORM


WHEEL = """\
set -euo pipefail
order=$(python3 -c 'print(*set("abcdefgh"), sep="")')
echo "jobs=$jobs word=$word version=$version style=$STYLE epoch=$SOURCE_DATE_EPOCH order=$order" >&2
{wait}
mkdir build && echo "$word" >build/$name.txt
(cd build && python3 -m zipfile -c "$wheels/$name-1-py3-none-any.whl" $name.txt)
"""
INSTALL = 'set -euo pipefail\npython3 -m zipfile -e "$wheels"/$name-1-*.whl /opt\n'


def compiled_layer(name: str, *, wait: str = "true", memory: str = "2G") -> dict[str, str]:
    """Return a layer that compiles a wheel, which holds its parameter ``word``.

    Layers compile at the same time if there is ``memory`` for each of their jobs.
    """
    layer = (
        f"summary: compiles {name}\nversion: '1.0'\nrequires: [first]\n"
        f"expects: {{memory_per_job: {memory}}}\n"
        "environment: {STYLE: x}\nparameters:\n"
        "  word: {type: string, default: hello}\n"
        f"  name: {{type: string, default: {name}}}\n"
    )
    script = WHEEL.replace("{wait}", wait)
    files = {"layer.yaml": layer, "compile.sh": script, "install.sh": INSTALL}
    return {f"layers/{name}/{file}": text for file, text in files.items()}


WHEELS = ("one", "other")
COMPILED = {
    "small.yaml": "summary: two wheels\nbase: tiny\nlayers: [first, second, one, other]\n",
    "layers/first/layer.yaml": "summary: the first\n",
    "layers/first/install.sh": "echo first >/opt/first\n",
    "layers/second/layer.yaml": "summary: the second\n",
    "layers/second/install.sh": "echo second >/opt/second\n",
    **compiled_layer("one"),
    **compiled_layer("other"),
}


def test_layers_that_need_the_same_are_compiled_at_the_same_time(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env = new_cache(tmp_path / "cache")
    with Gate(name_of(tmp_path)) as gate:
        slow = [compiled_layer(each, wait=gate.wait, memory="64M") for each in WHEELS]
        recipes = write_small(tmp_path / "own", {**COMPILED, **slow[0], **slow[1]})
        words = ("--recipes", recipes, "--progress", "json", "--jobs", 3, "--no-verify")
        command = (sys.executable, "-m", "lumicontainer", "build", "small", *words)
        with started(command, env=env, cwd=tmp_path) as process:
            gate.await_steps(len(WHEELS))
            gate.close()
            _, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, stderr
    ends = [event["step"] for event in events(stderr, "end")]
    assert ends.index("one") > ends.index("one: compile")
    lines = [event["text"] for event in events(stderr, "line") if "jobs=" in event["text"]]
    settings, orders = zip(*(line.split(" order=") for line in lines), strict=True)
    assert settings == ("jobs=3 word=hello version=1.0 style=x epoch=1735689600",) * 2
    # Python's sets have one order, and so the lists that packages make of them.
    assert len({*orders}) == 1
    assert inside(tmp_path / "small.sif", "cat", "/opt/one.txt") == "hello\n"


def built(recipes: Path, image: Path, *words: object, env: dict[str, str]) -> list[str]:
    """Build ``small``, and return the layers and the wheels that were made for it."""
    always = ("--recipes", recipes, "--progress", "json", "--no-verify", "--output", image)
    done = lumicontainer("build", "small", *always, *words, env=env, code=0)
    done_steps = [event["step"] for event in events(done.stderr, "end")]
    return [step for step in done_steps if step not in ("unpack", "pack")]


def test_a_change_makes_again_what_needs_it_and_nothing_else(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env, image = new_cache(tmp_path / "cache"), tmp_path / "small.sif"
    recipes = write_small(tmp_path / "own", COMPILED)
    compiles, above = ["one: compile", "other: compile"], ["one", "other", "lumicontainer"]
    assert sorted(built(recipes, image, env=env)) == sorted(["first", "second", *compiles, *above])
    steps = built(recipes, image, "--set", "other.word=bye", env=env)
    assert steps == ["other: compile", "other", "lumicontainer"]
    # A name that is not UTF-8 has to come back with its layer.
    named = "echo two >\"/opt/caf$(printf '\\351')\"\n"
    write_small(recipes, {**COMPILED, "layers/second/install.sh": named})
    assert built(recipes, image, env=env) == ["second", *above]
    image.unlink()
    assert built(recipes, image, env=env) == []
    assert inside(image, "sh", "-c", "cat /opt/first /opt/caf* /opt/one.txt") == (
        "first\ntwo\nhello\n"
    )
    write_small(recipes, COMPILED)
    assert built(recipes, image, env=env) == []


def test_a_compile_step_that_fails_ends_those_beside_it_and_is_the_one_that_is_named(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env = new_cache(tmp_path / "cache")
    failing = compiled_layer("other", wait="echo 'no such header' >&2; exit 4", memory="64M")
    endless = compiled_layer("one", wait="exec tail -f /dev/null", memory="64M")
    recipes = write_small(tmp_path / "own", {**COMPILED, **failing, **endless})
    place = tmp_path / "place"
    place.mkdir()
    env["LUMICONTAINER_TMPDIR"] = str(place)
    words = ("build", "small", "--recipes", recipes)
    done = lumicontainer(*words, env=env, cwd=tmp_path, code=5)
    assert "the step 'other: compile' failed (exit code 4)" in done.stderr
    assert "no such header" in done.stderr
    assert until(lambda: run(["pgrep", "--full", place]).stdout == "", PATIENCE)
    assert not (tmp_path / "small.sif").exists()


MINE = "the user's own\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("ln -s {mine}/file /tmp/.lumicontainer/shell.rc; exit 3\n", 5),
        ("mv /tmp/.lumicontainer /tmp/x; ln -s {mine} /tmp/.lumicontainer; exit 3\n", 5),
        ("ln -sf {mine}/file /.singularity.d/labels.json\n", 0),
    ],
    ids=["the shell of a failed step", "its folder", "the notes of an image"],
)
def test_no_link_that_a_step_leaves_is_written_through(
    new_cache: NewCache, tmp_path: Path, script: str, code: int
) -> None:
    env, mine = new_cache(tmp_path / "cache"), tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text(MINE)
    install = {"layers/greet/install.sh": script.format(mine=mine)}
    words = ("--recipes", write_small(tmp_path / "own", install), "--no-verify")
    env["LUMICONTAINER_TMPDIR"] = str(tmp_path)
    lumicontainer("build", "small", *words, env=env, cwd=tmp_path, code=code)
    assert [path.name for path in mine.iterdir()] == ["file"]
    assert (mine / "file").read_text() == MINE
