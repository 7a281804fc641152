"""A base image of a registry writes nothing outside its tree, whichever runtime unpacks it."""

import io
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import STEP_FAILED

from ..integration.conftest import debian, lumicontainer, started, write_files
from ..integration.registries import put_image, registry
from ..integration.test_without_internet import push

FORMS = {
    "etc": "etc",
    "the engine's folder": ".singularity.d",
    "the engine's variables": ".singularity.d/env",
}
"""Folders in which engines and builds write, by what they are."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Start a registry; give it and a folder of the user that the images want to write in."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "victim").mkdir()
    with registry(folder) as here:
        yield here, folder / "victim"


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


def build(here: str, name: str, runtime: str, folder: Path, code: int) -> str:
    """Build on a base of the registry, require an exit code, and return the messages."""
    layer = (
        "summary: a base of somebody\n"
        f"bootstrap: {{cpu: {{agent: docker, docker_image: 'docker.io/{name}:1'}}}}\n"
        'provides: {python: "3.11", glibc: "2.36"}\n'
    )
    recipes = write_files(
        folder / "own",
        {
            "hostile.yaml": "summary: x\nbase: theirs\nlayers: [mine]\n",
            "layers/theirs/layer.yaml": layer,
            "layers/mine/layer.yaml": "summary: x\n",
            "layers/mine/install.sh": "true\n",
        },
    )
    words = ("--recipes", recipes, "--runtime", runtime, "--output", folder / "x.sif")
    mirror = ("--mirror", f"docker://docker.io/=http://{here}/")
    env = {**started("docker"), "LUMICONTAINER_CACHE": str(folder / "cache")}
    env["LUMICONTAINER_TMPDIR"] = str(folder)
    done = lumicontainer("build", "hostile", *words, *mirror, env=env, code=code)
    assert not (folder / "x.sif").exists()
    return str(done.stderr)


@pytest.mark.parametrize("runtime", ["namespaces", "docker"])
@pytest.mark.parametrize("path", FORMS.values(), ids=FORMS)
def test_a_folder_that_is_a_link_is_refused_and_nothing_is_written_through_it(
    place: tuple[str, Path], tmp_path: Path, path: str, runtime: str
) -> None:
    here, victim = place
    name = path.strip(".").replace("/", "-").replace(".", "-")
    push_link(here, name, path, victim)
    assert f"/{path}" in build(here, name, runtime, tmp_path, STEP_FAILED)
    assert [*victim.iterdir()] == []


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


@pytest.mark.parametrize("runtime", ["namespaces", "docker"])
def test_nothing_of_a_hostile_image_runs_or_writes_on_the_host(
    place: tuple[str, Path], tmp_path: Path, runtime: str
) -> None:
    """It lacks Python, so the build ends when its base and the user's layer are made."""
    here, victim = place
    layers = (debian("docker-bookworm").read_bytes(), attack_by_links(victim))
    put_image(here, "library/hostile", layers, attack_by_configuration(victim))
    messages = build(here, "hostile", runtime, tmp_path, STEP_FAILED)
    assert "error: the image has no python3" in messages
    assert [*victim.iterdir()] == []
