"""A base image of a registry writes nothing outside its tree, whichever runtime unpacks it."""

import io
import shlex
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lumicontainer.errors import STEP_FAILED
from lumicontainer.sandbox.runtimes import RUNTIMES

from ..integration.conftest import check_output, debian, started, write_files
from ..integration.registries import put_image, registry
from ..integration.test_without_internet import push
from ..programs import run

FORMS = {
    "etc": "etc",
    "the engine's folder": ".singularity.d",
    "the engine's variables": ".singularity.d/env",
}
"""Folders in which engines and builds write, by what they are."""


class Builder(NamedTuple):
    """Hold how a runtime is used: a command, and a folder of the user who runs it."""

    command: Sequence[object]
    runtime: str
    folder: Path

    @property
    def victim(self) -> Path:
        """Return a folder of the user that the images want to write in."""
        return self.folder / "victim"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a registry."""
    with registry(tmp_path_factory.mktemp("hostile")) as here:
        yield here


@pytest.fixture(params=RUNTIMES)
def builder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Builder]:
    """Give a builder for each runtime; PRoot is only for ordinary users."""
    if request.param != "proot":
        (tmp_path / "victim").mkdir()
        yield Builder([sys.executable, "-m", "lumicontainer"], request.param, tmp_path)
        return
    user = request.getfixturevalue("ordinary_user")
    # Not in the user's home: a link from /home to it would lead to itself.
    folder = Path(check_output(*user, "mktemp", "--directory", "--tmpdir").strip())
    check_output(*user, "mkdir", folder / "victim")
    yield Builder(request.getfixturevalue("program"), "proot", folder)
    check_output("rm", "-rf", "--one-file-system", folder)


def push_link(here: str, name: str, path: str, target: Path) -> None:
    """Push an image in which a folder is a link to one of the host."""
    archive = target.parent / f"{name}.tar"
    with tarfile.open(archive, "w") as tar:
        for folder in Path(path).parents:
            member = tarfile.TarInfo(str(folder))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        link = tarfile.TarInfo(path)
        link.type, link.linkname = tarfile.SYMTYPE, str(target)
        tar.addfile(link)
    push(archive, f"{here}/library/{name}:1")


def build(here: str, name: str, builder: Builder) -> str:
    """Build on a base of the registry, require that a step fails, and return the messages."""
    layer = (
        "summary: a base of somebody\n"
        f"bootstrap: {{cpu: {{agent: docker, docker_image: 'docker.io/{name}:1'}}}}\n"
        'provides: {python: "3.11", glibc: "2.36"}\n'
    )
    folder = builder.folder
    recipes = write_files(
        folder / "own",
        {
            "hostile.yaml": "summary: x\nbase: theirs\nlayers: [mine]\n",
            "layers/theirs/layer.yaml": layer,
            "layers/mine/layer.yaml": "summary: x\n",
            "layers/mine/install.sh": "true\n",
        },
    )
    words = ("--recipes", recipes, "--runtime", builder.runtime, "--output", folder / "x.sif")
    mirror = ("--mirror", f"docker://docker.io/=http://{here}/")
    env = {**started("docker"), "LUMICONTAINER_CACHE": str(folder / "cache")}
    env["LUMICONTAINER_TMPDIR"] = str(folder)
    done = run([*builder.command, "build", "hostile", *words, *mirror], env=env)
    assert done.returncode == STEP_FAILED, done.stdout + done.stderr
    assert not (folder / "x.sif").exists()
    return str(done.stderr)


@pytest.mark.parametrize("path", FORMS.values(), ids=FORMS)
def test_a_folder_that_is_a_link_is_refused_and_nothing_is_written_through_it(
    here: str, builder: Builder, path: str
) -> None:
    name = path.strip(".").replace("/", "-").replace(".", "-")
    push_link(here, name, path, builder.victim)
    assert f"/{path}" in build(here, name, builder)
    assert [*builder.victim.iterdir()] == []


FOLDERS = ("home", "root", "tmp", "run", "srv", "mnt", "var/tmp", "var/lib/apt", "var/cache")
FILES = (
    *("etc/resolv.conf", "etc/hosts", "etc/hostname", "etc/passwd", "etc/group"),
    *(".singularity.d/labels.json", ".singularity.d/runscript", "environment"),
)


def attack_by_links(victim: Path) -> bytes:
    """Return a layer that removes folders and files of a system, and puts links to the host's."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for each in (*FOLDERS, *FILES):
            path = Path(each)
            tar.addfile(tarfile.TarInfo(str(path.with_name(f".wh.{path.name}"))))
            link = tarfile.TarInfo(each)
            link.type = tarfile.SYMTYPE
            link.linkname = str(victim if each in FOLDERS else victim / path.name)
            tar.addfile(link)
        device = tarfile.TarInfo("device")
        device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 3
        tar.addfile(device)
    return data.getvalue()


def attack_by_configuration(victim: Path) -> dict[str, Any]:
    """Return a configuration whose every field writes on the host if something runs it there."""
    touch = ["sh", "-c", f"touch {victim}/file"]
    text = shlex.join(touch)
    return {
        "architecture": "../x",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{'0' * 64}"] * 7},
        "config": {
            "Env": [f"A=$({text})", f"A;{text};=1", f"B=' \n {text} \n '", "=x", "LD_PRELOAD=/no"],
            "Entrypoint": touch,
            "Cmd": touch,
            "Shell": touch,
            "OnBuild": [f"RUN {text}"],
            "Healthcheck": {"Test": ["CMD-SHELL", text], "Interval": 1},
            "User": "nobody:999999",
            "WorkingDir": f"../../..{victim}",
            "Volumes": {"/": {}, str(victim): {}},
            "Labels": {"%post": text, "\n": "x" * 100_000},
        },
    }


def test_nothing_of_a_hostile_image_runs_or_writes_on_the_host(here: str, builder: Builder) -> None:
    """It lacks Python, so the build ends when its base and the user's layer are made."""
    victim = builder.victim
    layers = (debian("docker-bookworm").read_bytes(), attack_by_links(victim))
    put_image(here, "library/hostile", layers, attack_by_configuration(victim))
    assert "error: the image has no python3" in build(here, "hostile", builder)
    assert [*victim.iterdir()] == []
