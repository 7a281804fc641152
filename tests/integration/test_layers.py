"""Layers make the tree that a plain build makes, and a change rebuilds only what it must."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.build.cache.store import LAYER
from lumicontainer.constants import EPOCH

from .conftest import (
    ENGINE,
    FORMS,
    NASTY,
    TREES,
    described,
    events,
    lumicontainer,
    run,
    unpacked,
    write_small,
)

NewCache = Callable[[Path], dict[str, str]]
Tree = dict[str, list[Any]]


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build the recipe of nasty layers in all forms."""
    folder = tmp_path_factory.mktemp("nasty")
    for form in FORMS:
        # No check of an image would let pass what these layers hold on purpose.
        words = ("--no-verify", "--recipes", NASTY, "--pack", form)
        done = lumicontainer("build", "nasty", *words, "--output", folder / f"{form}.sif")
        assert done.returncode == 0, done.stderr
    return {form: folder / f"{form}.sif" for form in FORMS}


@pytest.fixture(scope="module")
def trees(nasty: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tree]:
    folder = tmp_path_factory.mktemp("trees")
    return {form: described(unpacked(image, folder / form)) for form, image in nasty.items()}


def differences(one: Tree, other: Tree) -> dict[str, tuple[object, object]]:
    names = sorted(one.keys() | other.keys())
    rows = {name: (one.get(name), other.get(name)) for name in names}
    return {name: (left, right) for name, (left, right) in rows.items() if left != right}


def test_all_forms_of_an_image_hold_the_same_tree(trees: dict[str, Tree]) -> None:
    assert len(trees["flat"]) > 6000
    for tree in trees.values():
        assert differences(tree, trees["flat"]) == {}


def test_layers_make_the_tree_of_a_plain_build(
    trees: dict[str, Tree], new_cache: NewCache, tmp_path: Path
) -> None:
    definition = tmp_path / "nasty.def"
    rendered = lumicontainer("render", "nasty", "--recipes", NASTY).stdout
    # The engine makes a base in builds of layers, too.
    (base,) = Path(new_cache(tmp_path / "cache")["LUMICONTAINER_CACHE"]).glob(f"objects/*/{LAYER}")
    made_by = "Bootstrap: debootstrap\nOSVersion: .*\nMirrorURL: .*\nInclude: .*\n"
    text, count = re.subn(made_by, f"Bootstrap: localimage\nFrom: {base}\n", rendered)
    assert count == 1
    definition.write_text(text)
    # How well the image is compressed does not matter, and takes most of the packing.
    quick = ["--mksquashfs-args", "-Xcompression-level 1"] if ENGINE.endswith("apptainer") else []
    command = [ENGINE, "build", "--fakeroot", *quick, tmp_path / "plain.sif", definition]
    # Without it the accounts and the password file hold the day of the build.
    done = run(command, env={"SOURCE_DATE_EPOCH": str(EPOCH)})
    assert done.returncode == 0, done.stderr[-2000:]
    plain = described(unpacked(tmp_path / "plain.sif", tmp_path / "tree"))
    assert differences(trees["flat"], plain) == {}


HIDDEN = ("proc", "sys", "dev", "tmp", "var/tmp", "root", "home", "usr/share/zoneinfo")
MOUNTED = tuple(f"etc/{name}" for name in ("resolv.conf", "hosts", "localtime", "passwd", "group"))


def seen_inside(image: Path) -> Tree:
    """Return what a program in an image sees of its tree, but for owners, who are not mapped."""
    command = [ENGINE, "--silent", "exec", "--contain", "--no-home", "--pwd", "/", image]
    words = ["python3", "-", "describe", "/", ".singularity.d", *HIDDEN, *MOUNTED]
    done = run(
        [*command, *words],
        env={"APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"},
        stdin=TREES.read_text(),
    )
    assert done.returncode == 0, done.stderr
    return {name: [row[0], *row[3:]] for name, row in json.loads(done.stdout).items()}


def test_a_program_inside_sees_the_same_tree_in_all_forms(nasty: dict[str, Path]) -> None:
    flat = seen_inside(nasty["flat"])
    assert len(flat) > 5000
    for image in nasty.values():
        assert differences(seen_inside(image), flat) == {}


LISTS = """
import json, sys
sys.path.append("/opt/lumicontainer/lib")
from lumi_inside.elf.reader import UnreadableError
from lumi_inside.image.contents import Contents, contents

image = contents()
disk = Contents(image.hidden)
result = {"kind": "disk" if image.rows is None else "list", "paths": 0, "differ": []}

def asked(call, *words):
    try:
        return call(*words)
    except (OSError, UnreadableError) as error:
        return type(error).__name__

seen = {one.path: one for one in disk.walk()}
listed = {one.path: one for one in image.walk()}
for path in sorted(seen.keys() | listed.keys()):
    one, other = listed.get(path), seen.get(path)
    same = None not in (one, other) and one.mode == other.mode and image.look(path) == one
    same = same and (one.is_folder() or one.size == other.size)
    for name, word in (("loadable", other), ("readlink", path)):
        same = same and asked(getattr(image, name), word) == asked(getattr(disk, name), word)
    result["paths"] += 1
    if not same and path != "/.singularity.d/lumicontainer-files.json":
        result["differ"].append(f"{path}: {one} {other}")
print(json.dumps(result))
"""


def lists_of(image: Path, *options: object) -> dict[str, Any]:
    """Compare the list that an image's checks use with the files that a program finds in it."""
    # Without folders that the engine makes for what it mounts.
    own = ["--userns", "--contain", "--no-home", "--pwd", "/"]
    done = run([ENGINE, "--silent", "exec", *own, *options, image, "python3", "-c", LISTS])
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_list_in_an_image_says_what_the_disk_says(
    nasty: dict[str, Path], tmp_path: Path
) -> None:
    kinds = {"layered": "list", "flat": "disk"}
    for form, each in nasty.items():
        seen = lists_of(each)
        assert seen["differ"] == []
        assert (seen["kind"], seen["paths"] > 5000) == (kinds[form], True)
    # The list does not count where something else may be seen than what was packed.
    (tmp_path / "upper").mkdir()
    listed = "/.singularity.d/lumicontainer-files.json"
    others = (("--overlay", f"{tmp_path}:ro"), ("--bind", f"/dev/null:{listed}"))
    found = {lists_of(nasty[FORMS[0]], *options)["kind"] for options in others}
    assert found == {"disk"}


CHAIN = {
    "small.yaml": "summary: three layers\nbase: tiny\nlayers: [first, second, third]\n",
    **{
        f"layers/{name}/{file}": text
        for name in ("first", "second", "third")
        for file, text in {
            "layer.yaml": f"summary: the {name}\n",
            "install.sh": f"echo {name} >/opt/{name}\n",
        }.items()
    },
}


def built(recipes: Path, image: Path, *words: object, env: dict[str, str]) -> list[str]:
    """Build ``small``, and return the layers and the wheels that were made for it."""
    always = ("--recipes", recipes, "--progress", "json", "--no-verify", "--output", image)
    done = lumicontainer("build", "small", *always, *words, env=env)
    assert done.returncode == 0, done.stderr
    done_steps = [event["step"] for event in events(done.stderr, "end")]
    return [step for step in done_steps if step not in ("unpack", "pack")]


def test_a_change_rebuilds_its_layer_and_those_above_it(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env = new_cache(tmp_path / "cache")
    image = tmp_path / "small.sif"
    recipes = write_small(tmp_path / "own", CHAIN)
    assert built(recipes, image, env=env) == ["first", "second", "third", "lumicontainer"]
    # A name that is not UTF-8 has to come back with its layer.
    named = {**CHAIN, "layers/first/install.sh": "echo one >\"/opt/caf$(printf '\\351')\"\n"}
    write_small(recipes, named)
    assert built(recipes, image, env=env) == ["first", "second", "third", "lumicontainer"]
    write_small(recipes, CHAIN)
    image.unlink()
    assert built(recipes, image, env=env) == []
    seen = lumicontainer("run", image, "--", "cat", "/opt/first", "/opt/second", "/opt/third")
    assert seen.stdout == "first\nsecond\nthird\n"
    write_small(recipes, {**named, "layers/second/install.sh": "cat /opt/caf* >/opt/second\n"})
    assert built(recipes, image, env=env) == ["second", "third", "lumicontainer"]
    seen = lumicontainer("run", image, "--", "sh", "-c", "cat /opt/caf* /opt/second")
    assert seen.stdout == "one\none\n"


WHEEL = """\
set -euo pipefail
echo "jobs=$jobs word=$word version=$version style=$STYLE epoch=$SOURCE_DATE_EPOCH" >&2
{wait}
mkdir build && echo "$word" >build/$name.txt
(cd build && python3 -m zipfile -c "$wheels/$name-1-py3-none-any.whl" $name.txt)
"""
INSTALL = 'set -euo pipefail\npython3 -m zipfile -e "$wheels"/$name-1-*.whl /opt\n'


def compiled_layer(name: str, *, wait: str = "true") -> dict[str, str]:
    """Return a layer that compiles a wheel, which holds its parameter ``word``."""
    layer = (
        f"summary: compiles {name}\nversion: '1.0'\nrequires: [first]\n"
        "environment: {STYLE: x}\nparameters:\n"
        "  word: {type: string, default: hello}\n"
        f"  name: {{type: string, default: {name}}}\n"
    )
    script = WHEEL.replace("{wait}", wait)
    files = {"layer.yaml": layer, "compile.sh": script, "install.sh": INSTALL}
    return {f"layers/{name}/{file}": text for file, text in files.items()}


WHEELS = ("one", "other")
COMPILED = {
    **CHAIN,
    "small.yaml": "summary: two wheels\nbase: tiny\nlayers: [first, second, one, other]\n",
    **compiled_layer("one"),
    **compiled_layer("other"),
}


def moment(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["time"])


def test_layers_that_need_the_same_are_compiled_at_the_same_time(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env = new_cache(tmp_path / "cache")
    slow = [compiled_layer(each, wait="timeout 2 tail -f /dev/null || true") for each in WHEELS]
    recipes = write_small(tmp_path / "own", {**COMPILED, **slow[0], **slow[1]})
    words = ("--recipes", recipes, "--progress", "json", "--jobs", 3, "--no-verify")
    done = lumicontainer("build", "small", *words, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    begin = {event["step"]: moment(event) for event in events(done.stderr, "begin")}
    end = {event["step"]: moment(event) for event in events(done.stderr, "end")}
    one, other = "one: compile", "other: compile"
    assert max(begin[one], begin[other]) < min(end[one], end[other])
    assert end["one"] > end[one]
    lines = [event["text"] for event in events(done.stderr, "line") if "jobs=" in event["text"]]
    assert lines == ["jobs=3 word=hello version=1.0 style=x epoch=1735689600"] * 2
    seen = lumicontainer("run", tmp_path / "small.sif", "--", "cat", "/opt/one.txt")
    assert seen.stdout == "hello\n"


def test_wheels_are_kept_when_what_they_do_not_need_changes(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env = new_cache(tmp_path / "cache")
    image = tmp_path / "small.sif"
    recipes = write_small(tmp_path / "own", COMPILED)
    compiles = {"one: compile", "other: compile"}
    assert compiles <= set(built(recipes, image, env=env))
    write_small(recipes, {**COMPILED, "layers/second/install.sh": "echo other >/opt/second\n"})
    steps = built(recipes, image, env=env)
    assert {"second", "one", "other"} <= set(steps)
    assert compiles.isdisjoint(steps)
    steps = built(recipes, image, "--set", "other.word=bye", env=env)
    assert set(steps) & {*compiles, "one", "other"} == {"other: compile", "other"}


def test_a_compile_step_that_fails_ends_those_beside_it_and_is_the_one_that_is_named(
    new_cache: NewCache, tmp_path: Path
) -> None:
    env = new_cache(tmp_path / "cache")
    failing = compiled_layer("other", wait="echo 'no such header' >&2; exit 4")
    endless = compiled_layer("one", wait="exec tail -f /dev/null")
    recipes = write_small(tmp_path / "own", {**COMPILED, **failing, **endless})
    words = ("--recipes", recipes, "--progress", "json")
    place = tmp_path / "place"
    place.mkdir()
    env["LUMICONTAINER_TMPDIR"] = str(place)
    done = lumicontainer("build", "small", *words, env=env, cwd=tmp_path)
    assert done.returncode == 5
    assert "the step 'other: compile' failed (exit code 4)" in done.stderr
    assert "no such header" in done.stderr
    running = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(place) in path.read_bytes().decode("utf-8", "replace")
    ]
    assert running == []
    assert not (tmp_path / "small.sif").exists()


MINE = "the user's own\n"


def with_script(folder: Path, file: str, script: str) -> Path:
    """Write the recipe ``small`` with a layer whose only script is this one."""
    recipe = "summary: a layer with links\nbase: tiny\nlayers: [links]\n"
    layer = {"layers/links/layer.yaml": "summary: x\n", f"layers/links/{file}": script}
    return write_small(folder, {"small.yaml": recipe, **layer})


def test_a_link_to_a_file_of_the_host_is_no_wheel(new_cache: NewCache, tmp_path: Path) -> None:
    env, mine = new_cache(tmp_path / "cache"), tmp_path / "mine"
    mine.write_text(MINE)
    recipes = with_script(tmp_path / "own", "compile.sh", f'ln -s {mine} "$wheels/x.whl"\n')
    done = lumicontainer("build", "small", "--recipes", recipes, env=env, cwd=tmp_path)
    assert done.returncode == 5
    assert "the step 'links: compile' left unexpected files" in done.stderr
    assert "'/tmp/.lumicontainer/wheels/x.whl'" in done.stderr
    assert not list((tmp_path / "cache").rglob("x.whl"))


@pytest.mark.parametrize(
    "script",
    [
        "ln -s {mine}/file /tmp/.lumicontainer/shell.rc; exit 3\n",
        "mv /tmp/.lumicontainer /tmp/away; ln -s {mine} /tmp/.lumicontainer; exit 3\n",
    ],
)
def test_the_shell_of_a_failed_step_is_written_through_no_link(
    new_cache: NewCache, tmp_path: Path, script: str
) -> None:
    env, mine = new_cache(tmp_path / "cache"), tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text(MINE)
    recipes = with_script(tmp_path / "own", "install.sh", script.format(mine=mine))
    env["LUMICONTAINER_TMPDIR"] = str(tmp_path)
    done = lumicontainer("build", "small", "--recipes", recipes, env=env, cwd=tmp_path)
    assert "the step 'links' failed (exit code 3)" in done.stderr
    assert [path.name for path in mine.iterdir()] == ["file"]
    assert (mine / "file").read_text() == MINE


def test_a_flat_image_gets_its_notes_through_no_link(new_cache: NewCache, tmp_path: Path) -> None:
    env, mine = new_cache(tmp_path / "cache"), tmp_path / "mine"
    mine.write_text(MINE)
    script = f"ln -sf {mine} /.singularity.d/labels.json\n"
    recipes = with_script(tmp_path / "own", "install.sh", script)
    image = tmp_path / "small.sif"
    built(recipes, image, "--pack", "flat", env=env)
    assert mine.read_text() == MINE
    seen = lumicontainer("run", image, "--", "cat", "/.singularity.d/labels.json")
    assert "org.lumicontainer.key" in seen.stdout


def test_a_name_that_engines_take_for_a_removal_is_refused(tmp_path: Path) -> None:
    script = "set -euo pipefail\ntouch /opt/.wh.hidden\n"
    folder = write_small(tmp_path / "own", {"layers/greet/install.sh": script})
    image = tmp_path / "small.sif"
    done = lumicontainer("build", "small", "--recipes", folder, "--output", image)
    assert done.returncode == 5
    assert "engines read names that begin with .wh. as removals" in done.stderr
    assert "/opt/.wh.hidden" in done.stderr
    assert not image.exists()
