"""One recipe gives one image, byte for byte, whoever builds it, where, when and how often."""

# ruff: noqa: F811 - a fixture that is imported has the name of the parameter that takes it

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.build.cache.store import LAYER

from ..faults.real import debian_library
from ..namespaces import prepared
from .conftest import ENGINE, FORMS, NASTY, events, run
from .people import let_in
from .test_users import ordinary_user, program  # noqa: F401

NewCache = Callable[[Path], dict[str, str]]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(cache: Path, *images: Path) -> dict[str, str]:
    """Return the sha256 of each layer of a cache, by the object's name, and of images."""
    layers = {path.parent.name: sha256(path) for path in cache.glob(f"objects/*/{LAYER}")}
    return layers | {path.name: sha256(path) for path in images}


class Site:
    """A place to build in: a cache with the base alone, and folders of its own."""

    def __init__(self, folder: Path, new_cache: NewCache) -> None:
        self.folder = folder
        for name in ("temporary", "work"):
            (folder / name).mkdir(parents=True)
        self.env = new_cache(folder / "cache")
        self.env["LUMICONTAINER_TMPDIR"] = str(folder / "temporary")

    def build(
        self,
        *start: object,
        options: tuple[object, ...] = (),
        form: str = FORMS[0],
        recipes: Path = NASTY,
    ) -> dict[str, str]:
        """Build the recipe, with a command before, and return the digests of all that was made."""
        image = self.folder / "work" / f"{form}.sif"
        command = [*start, sys.executable, "-m", "lumicontainer", "build", "nasty"]
        # No check of an image would let pass what these layers hold on purpose.
        words = ("--no-verify", "--recipes", recipes, "--pack", form, "--output", image, *options)
        done = run([*command, *words], cwd=self.folder / "work", env=self.env)
        assert done.returncode == 0, done.stderr
        self.stderr = done.stderr
        return digests(Path(self.env["LUMICONTAINER_CACHE"]), image)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, new_cache: NewCache) -> dict[str, str]:
    """Return the digests of a build of its own, to which the others are compared."""
    site = Site(tmp_path_factory.mktemp("first"), new_cache)
    return {name: digest for form in FORMS for name, digest in site.build(form=form).items()}


@pytest.fixture
def site(tmp_path: Path, new_cache: NewCache) -> Site:
    return Site(tmp_path / "another" / "and a deeper place", new_cache)


def in_form(form: str, found: dict[str, str]) -> dict[str, str]:
    """Return the layers' digests, and of the images' that of one form."""
    others = {f"{other}.sif" for other in FORMS} - {f"{form}.sif"}
    return {name: digest for name, digest in found.items() if name not in others}


def test_the_recipe_has_as_many_layers_as_are_compared(first: dict[str, str]) -> None:
    assert len(first) == 6 + len(FORMS)


ELSEWHERE = {
    "TZ": "Pacific/Kiritimati",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "C",
    "LANGUAGE": "de",
    "PYTHONHASHSEED": "4711",
    "SOURCE_DATE_EPOCH": "1",
}


def test_the_flat_form_is_the_same_after_another_build_in_the_place_and_on_another_day(
    first: dict[str, str], site: Site, tmp_path: Path, new_cache: NewCache
) -> None:
    """The steps live three days later than the day on which this is run, under another umask."""
    clock = debian_library("libfaketime", "libfaketime.so.1", suite="bookworm")
    other = tmp_path / "other"
    shutil.copytree(NASTY, other)
    with (other / "layers/change/install.sh").open("a") as script:
        script.write("rm -r hostile names /usr/share/doc && chmod 0711 /etc /srv\n")
    (other / "layers/tools/install.sh").write_text("mkdir -p /srv/nasty/gone/other\n")
    (other / "layers/undo/install.sh").write_text("chown -R 42:42 /srv/nasty\n")
    site.build(recipes=other)
    site.env |= new_cache(tmp_path / "cache of its own")
    wrapper = site.folder / "bin" / Path(ENGINE).name
    wrapper.parent.mkdir()
    wrapper.write_text(ENGINE_LATER.format(engine=ENGINE, library=clock))
    wrapper.chmod(0o755)
    site.env["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
    start = ("sh", "-c", 'umask 0077 && exec "$@"', "sh")
    found = site.build(*start, form="flat", options=("--progress", "json"))
    assert found == in_form("flat", first)
    (line,) = (each for each in events(site.stderr, "line") if each["text"].startswith("clock "))
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
    first: dict[str, str],
    program: list[object],
    ordinary_user: list[object],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Folders, umask, host name, time zone, language, jobs and hash seed are other ones, too."""
    folder = tmp_path_factory.mktemp("users")
    recipes = shutil.copytree(NASTY, folder / "recipes")
    let_in(folder)
    home = Path(run([*ordinary_user, "pwd"]).stdout.strip())
    cache, image = home / "cache", home / f"{FORMS[0]}.sif"
    words = ("--no-verify", "--recipes", recipes, "--pack", FORMS[0], "--output", image)
    start = (*prepared("uts", "umask 0007 && hostname other"), "taskset", "-c", "0")
    env = {"LUMICONTAINER_CACHE": str(cache), "LUMICONTAINER_TMPDIR": str(home), **ELSEWHERE}
    # A folder of the host that lies where the base has an empty one.
    env["PIP_FIND_LINKS"] = f"{os.environ.get('PIP_FIND_LINKS', '')} {folder}"
    progress = ("--jobs", 7, "--progress", "json")
    done = run([*start, *program, "build", "nasty", *words, *progress], env=env)
    assert done.returncode == 0, done.stderr
    assert digests(cache, image) == in_form(FORMS[0], first)
    printed = [each["text"] for each in events(done.stderr, "line") if each["step"] == "base"]
    for form in ("Retrieving libc6_.*deb", "Unpacking libc6:.*", "Setting up python3 .*"):
        assert any(re.fullmatch(form, line) for line in printed), printed
    run([*ordinary_user, "rm", "-rf", cache, image])
