"""A base image of a registry writes nothing outside its tree, whichever runtime unpacks it."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.errors import STEP_FAILED

from ..integration.conftest import lumicontainer, started, write_files
from ..integration.registries import registry
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


@pytest.mark.parametrize("runtime", ["namespaces", "docker"])
@pytest.mark.parametrize("path", FORMS.values(), ids=FORMS)
def test_a_folder_that_is_a_link_is_refused_and_nothing_is_written_through_it(
    place: tuple[str, Path], tmp_path: Path, path: str, runtime: str
) -> None:
    here, victim = place
    name = path.strip(".").replace("/", "-").replace(".", "-")
    push_link(here, name, path, victim)
    layer = (
        "summary: a base of somebody\n"
        f"bootstrap: {{cpu: {{agent: docker, docker_image: 'docker.io/{name}:1'}}}}\n"
        'provides: {python: "3.11", glibc: "2.36"}\n'
    )
    recipes = write_files(
        tmp_path / "own",
        {
            "hostile.yaml": "summary: x\nbase: theirs\nlayers: [mine]\n",
            "layers/theirs/layer.yaml": layer,
            "layers/mine/layer.yaml": "summary: x\n",
            "layers/mine/install.sh": "true\n",
        },
    )
    words = ("--recipes", recipes, "--runtime", runtime, "--output", tmp_path / "x.sif")
    mirror = ("--mirror", f"docker://docker.io/=http://{here}/")
    env = {**started("docker"), "LUMICONTAINER_CACHE": str(tmp_path / "cache")}
    env["LUMICONTAINER_TMPDIR"] = str(tmp_path)
    done = lumicontainer("build", "hostile", *words, *mirror, env=env, code=STEP_FAILED)
    assert f"/{path}" in done.stderr
    assert [*victim.iterdir()] == []
    assert not (tmp_path / "x.sif").exists()
