"""One recipe gives one image, byte for byte, whoever builds it, where, when and how often."""

import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from lumicontainer.cache.objects import LAYER

from ..faults.real import debian_library
from ..namespaces import prepared
from .conftest import COMPRESSIONS, ENGINE, NASTY, PLATFORMS, digest, events, run
from .people import let_in

Digests = dict[str, str]
# No check of an image would let pass what these layers hold on purpose.
BUILD = ("build", "nasty", "--no-verify", "--progress", "json")


def digests(cache: Path, *images: Path) -> Digests:
    """Return the sha256 of each layer of a cache, by the object's name, and of images."""
    layers = {path.parent.name: digest(path) for path in cache.glob(f"objects/*/{LAYER}")}
    return layers | {path.name: digest(path) for path in images}


def build(
    folder: Path,
    env: dict[str, str],
    *start: object,
    compression: str = COMPRESSIONS[0],
    recipes: Path = NASTY,
) -> tuple[Digests, str]:
    """Build the recipe in a folder, with a command before; return all digests, and stderr."""
    for name in ("temporary", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    image = folder / "work" / f"{compression}.sif"
    place = ("--platform", PLATFORMS[compression])
    words = (*BUILD, "--recipes", recipes, *place, "--output", image)
    env = {**env, "LUMICONTAINER_TMPDIR": str(folder / "temporary")}
    command = [*start, sys.executable, "-m", "lumicontainer", *words]
    done = run(command, cwd=folder / "work", env=env)
    assert done.returncode == 0, done.stderr
    return digests(Path(env["LUMICONTAINER_CACHE"]), image), done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty cache: the base that others made has the packages of another day."""
    return tmp_path_factory.mktemp("first") / "cache"


@pytest.fixture(scope="module")
def first(cache: Path) -> Digests:
    """Return the digests of a build from the base up, to which the others are compared."""
    folder, env, digests = cache.parent, in_cache(cache), {}
    for compression in COMPRESSIONS:
        digests |= build(folder, env, compression=compression)[0]
    # The image in gzip has each layer a second time, and a last one that names its platform.
    assert len(digests) == (6 + 7 + 2 if len(COMPRESSIONS) == 2 else 12 + 1)
    return digests


def in_cache(cache: Path) -> dict[str, str]:
    return {"LUMICONTAINER_CACHE": str(cache)}


def copy_base(cache: Path, folder: Path, name: str) -> dict[str, str]:
    """Make a cache with nothing but the base of another one; return the variable that names it."""
    shutil.copytree(cache / "objects" / name, folder / "objects" / name)
    folder.chmod(0o700)
    return in_cache(folder)


def require_same(digests: Digests, first: Digests) -> None:
    """Require that each layer and each image has the bytes of the first build."""
    assert digests == {name: first.get(name) for name in digests}
    assert len(digests) > 6


ELSEWHERE = {
    "TZ": "Pacific/Kiritimati",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "C",
    "LANGUAGE": "de",
    "PYTHONHASHSEED": "4711",
}


def test_an_image_in_gzip_is_the_same_after_another_build_in_the_place_and_on_another_day(
    first: Digests, cache: Path, base_object: Path, tmp_path: Path
) -> None:
    """The steps live three days later than the day on which this is run, under another umask."""
    folder, other = tmp_path / "another" / "and a deeper place", tmp_path / "other"
    shutil.copytree(NASTY, other)
    with (other / "layers/change/install.sh").open("a") as script:
        script.write("rm -r hostile names /usr/share/doc && chmod 0711 /etc /srv\n")
    (other / "layers/tools/install.sh").write_text("mkdir -p /srv/nasty/gone/other\n")
    (other / "layers/undo/install.sh").write_text("chown -R 42:42 /srv/nasty\n")
    build(folder, copy_base(cache, folder / "cache", base_object.name), recipes=other)
    clock = debian_library("libfaketime", "libfaketime.so.1", suite="bookworm")
    wrapper = folder / "bin" / Path(ENGINE).name
    wrapper.parent.mkdir()
    wrapper.write_text(ENGINE_LATER.format(engine=ENGINE, library=clock))
    wrapper.chmod(0o755)
    env = copy_base(cache, tmp_path / "cache of its own", base_object.name)
    env["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
    start = ("sh", "-c", 'umask 0077 && exec "$@"', "sh")
    digests, stderr = build(folder, env, *start, compression="gzip")
    require_same(digests, first)
    (line,) = (each for each in events(stderr, "line") if each["text"].startswith("clock "))
    assert int(line["text"].split()[1]) > time.time() + 2 * 86400


ENGINE_LATER = """\
#!/bin/sh
for word; do
    if [ "$word" = --fakeroot ]; then
        for name in APPTAINER SINGULARITY; do
            export "${{name}}ENV_LD_PRELOAD=/mnt/libfaketime.so.1" "${{name}}ENV_FAKETIME=+3d"
            export "${{name}}ENV_FAKETIME_DONT_FAKE_MONOTONIC=1"
            export "${{name}}_BIND=$(dirname {library}):/mnt:ro"
        done
    fi
done
exec {engine} "$@"
"""


def test_an_ordinary_user_in_another_place_makes_the_same_bytes_from_the_base_up(
    first: Digests,
    program: list[object],
    ordinary_user: list[object],
    home: Path,
    tmp_path: Path,
) -> None:
    """Folders, umask, host name, time zone, language, jobs and hash seed are other ones, too."""
    recipes = shutil.copytree(NASTY, tmp_path / "recipes")
    let_in(tmp_path)
    cache, image = home / "cache", home / f"{COMPRESSIONS[0]}.sif"
    start = (*prepared("uts", "umask 0007 && hostname other"), "taskset", "-c", "0")
    env = {"LUMICONTAINER_CACHE": str(cache), "LUMICONTAINER_TMPDIR": str(home), **ELSEWHERE}
    # A folder of the host that lies where the base has an empty one.
    env["PIP_FIND_LINKS"] = f"{os.environ.get('PIP_FIND_LINKS', '')} {tmp_path}"
    words = ("--recipes", recipes, "--output", image, "--jobs", 7)
    done = run([*start, *program, *BUILD, *words], env=env)
    assert done.returncode == 0, done.stderr
    require_same(digests(cache, image), first)
    printed = [each["text"] for each in events(done.stderr, "line") if each["step"] == "base"]
    for form in ("Retrieving libc6_.*deb", "Unpacking libc6:.*", "Setting up python3 .*"):
        assert any(re.fullmatch(form, line) for line in printed), printed
    run([*ordinary_user, "rm", "-rf", cache, image])
