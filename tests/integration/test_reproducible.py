"""One recipe gives one image, byte for byte, whoever builds it, where, when and how often."""

# ruff: noqa: F811 - a fixture that is imported has the name of the parameter that takes it

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.build.cache.store import LAYER

from ..namespaces import prepared
from .conftest import ENGINE, FORMS, NASTY, events, lumicontainer, run, write_small
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
        self.told = done.stderr
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


def test_a_build_from_the_base_up_in_another_place_gives_the_same_bytes(
    first: dict[str, str], tmp_path: Path
) -> None:
    """Folders, umask, host name, time zone, language, jobs and hash seed are all other ones."""
    # debootstrap fails in a folder whose name holds a blank; the other tests' places have one.
    site = Site(
        tmp_path / "another/deeper/place",
        lambda folder: {"LUMICONTAINER_CACHE": str(folder), **ELSEWHERE},
    )
    # A folder of the host that lies where the base has an empty one.
    site.env["PIP_FIND_LINKS"] = f"{os.environ.get('PIP_FIND_LINKS', '')} {tmp_path}"
    start = (*prepared("uts", "umask 0007 && hostname other"), "taskset", "-c", "0")
    assert site.build(*start, options=("--jobs", 7)) == in_form(FORMS[0], first)


def test_the_flat_form_gives_the_same_bytes_in_another_place(
    first: dict[str, str], site: Site
) -> None:
    found = site.build("sh", "-c", 'umask 0077 && exec "$@"', "sh", form="flat")
    assert found == in_form("flat", first)


def test_what_was_built_before_in_the_same_place_decides_nothing(
    first: dict[str, str], site: Site, tmp_path: Path, new_cache: NewCache
) -> None:
    other = tmp_path / "other"
    shutil.copytree(NASTY, other)
    with (other / "layers/change/install.sh").open("a") as script:
        script.write("rm -r hostile names /usr/share/doc && chmod 0711 /etc /srv\n")
    (other / "layers/tools/install.sh").write_text("mkdir -p /srv/nasty/gone/other\n")
    (other / "layers/undo/install.sh").write_text("chown -R 42:42 /srv/nasty\n")
    site.build(recipes=other)
    site.env |= new_cache(tmp_path / "cache of its own")
    assert site.build() == in_form(FORMS[0], first)


def test_an_ordinary_user_makes_the_same_bytes(
    first: dict[str, str],
    program: list[object],
    ordinary_user: list[object],
    new_cache: NewCache,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("users")
    recipes = shutil.copytree(NASTY, folder / "recipes")
    let_in(folder)
    home = Path(run([*ordinary_user, "pwd"]).stdout.strip())
    cache, image = home / "cache", home / f"{FORMS[0]}.sif"
    new_cache(cache)
    for path in (cache, *cache.rglob("*")):
        shutil.chown(path, home.owner())
    words = ("--no-verify", "--recipes", recipes, "--pack", FORMS[0], "--output", image)
    env = {"LUMICONTAINER_CACHE": str(cache), "LUMICONTAINER_TMPDIR": str(home)}
    done = run([*program, "build", "nasty", *words], env=env)
    assert done.returncode == 0, done.stderr
    assert digests(cache, image) == in_form(FORMS[0], first)
    run([*ordinary_user, "rm", "-rf", cache, image])


def test_the_clock_decides_nothing(first: dict[str, str], site: Site, shifted: Path) -> None:
    """The steps live three days later than the day on which this is run."""
    wrapper = site.folder / "bin" / Path(ENGINE).name
    wrapper.parent.mkdir()
    wrapper.write_text(ENGINE_LATER.format(engine=ENGINE, library=shifted))
    wrapper.chmod(0o755)
    site.env["PATH"] = f"{wrapper.parent}:{os.environ['PATH']}"
    assert site.build(options=("--progress", "json")) == in_form(FORMS[0], first)
    (line,) = (each for each in events(site.told, "line") if each["text"].startswith("clock "))
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


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library that shifts the clock: a package of the same release as the image's."""
    folder = tmp_path_factory.mktemp("clock")
    layer = "summary: a clock\npackages: {apt: [libfaketime]}\n"
    clock = "summary: a clock that can be set\nbase: tiny\nlayers: [clock]\n"
    recipes = write_small(folder, {"clock.yaml": clock, "layers/clock/layer.yaml": layer})
    image = folder / "clock.sif"
    done = lumicontainer("build", "clock", "--recipes", recipes, "--output", image)
    assert done.returncode == 0, done.stderr
    name = "libfaketime.so.1"
    text = lumicontainer("run", image, "--", "sh", "-c", f"cat /usr/lib/*/faketime/{name} | base64")
    assert text.returncode == 0, text.stderr
    decoded = subprocess.run(
        ["base64", "-d"], input=text.stdout.encode(), stdout=subprocess.PIPE, check=True
    )
    (folder / name).write_bytes(decoded.stdout)
    return folder / name
