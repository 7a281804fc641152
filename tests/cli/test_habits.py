"""Words of Apptainer, Docker, conda, Slurm and torchrun get the hint that leads on."""

from pathlib import Path

import pytest

from lumicontainer.commands.parser import VERBS
from lumicontainer.core.habits import IMAGE, RECIPE, VERB, habit_hint

from ..conftest import HELLO, Write
from .conftest import Run, refused

COMMANDS = {
    "exec x.sif python train.py": "lumicontainer run IMAGE -- COMMAND",
    "create -n mine": "lumicontainer init NAME, or lumicontainer import FILE",
    "version": "lumicontainer --version",
    "install torch": "lumicontainer extend IMAGE PACKAGE -o mine.sqsh",
    "pull docker://ubuntu": "lumicontainer init mine --base-image docker://ubuntu",
    "help exec": "lumicontainer run IMAGE -- COMMAND",
    "frobnicate": "lumicontainer --help",
    "run --nv x.sif python": "leave it out: ",
    "run -B /a:/b x.sif python": "export SINGULARITY_BIND=/a:/b",
    "run --bind=/a:/b x.sif python": "export SINGULARITY_BIND=/a:/b",
    "run -v /a:/b x.sif python": "export SINGULARITY_BIND=/a:/b, and name the image",
    "run -v a:b x.sif python": "export SINGULARITY_BIND=a:b, and name the image",
    "run -v ./data:/data x.sif python": "export SINGULARITY_BIND=./data:/data, and name the image",
    "run data:~/data x.sif python": "export SINGULARITY_BIND='data:~/data', and name the image",
    "shell -v data:/data x.sif": "export SINGULARITY_BIND=data:/data, and name the image",
    "run x.sif --nv python": "leave it out: ",
    "run docker://ubuntu python": "lumicontainer init mine --base-image docker://ubuntu",
    "run pytorch -- python": "lumicontainer build pytorch writes pytorch.sif",
    "build out.sif in.def": "lumicontainer import in.def",
    "build --fakeroot out.sif in.def": "lumicontainer import in.def",
    "build docker://ubuntu:24.04": "lumicontainer init mine --base-image docker://ubuntu:24.04",
    "build ubuntu:24.04": "lumicontainer init mine --base-image docker://ubuntu:24.04",
    "build Dockerfile": "lumicontainer import Dockerfile",
    "build requirements.txt": "lumicontainer import requirements.txt",
    "build environment.yml": "lumicontainer import environment.yml",
    "build -f env/Dockerfile": "lumicontainer import env/Dockerfile",
    "build -t mine .": "lumicontainer import ./Dockerfile",
    "build .": "lumicontainer import ./Dockerfile",
    "build pytorch -t mine": "--output mine.sif, or --output docker:mine",
    "build libfabric": "'libfabric' is a layer",
    "build lumi-g": "name it by --platform lumi-g",
    "build PyTorch": "did you mean 'pytorch'?",
    "show libfabric --kind recipe": "'libfabric' is a layer",
    "check pytorch-deepspeed --set deepspeed.DS_BUILD_OPS=1": "--set deepspeed.DS_BUILD_FUSED_ADAM",
    "shell x.sif bash": "lumicontainer run IMAGE -- COMMAND",
    "list layers": "leave it out: list prints",
    "inspect --labels x.sif": "singularity inspect IMAGE",
    "inspect x.sif -d": "write --definition",
    "verify x.sif --gpu": "write --require gpu",
    "binds --nv x.sif": "leave it out: ",
    "render pytorch -o x.def": "redirect it: lumicontainer render RECIPE >x.def",
    "render pytorch --format Dockerfile": "did you mean 'dockerfile'?",
    "lock pytorch --upgrade": "leave it out: lock asks for the newest versions",
    "cache clean": "lumicontainer cache prune",
    "extend x.sif tabulate": "add -o mine.sqsh",
    "extend a.sif b -o c --index-url https://d.org": "or export PIP_INDEX_URL=https://d.org",
    "extend a.sif b -o c --extra-index-url=d": "or export PIP_EXTRA_INDEX_URL=d",
    "extend a.sif b -o c --find-links wheels": "or export PIP_FIND_LINKS=wheels",
    "import docker://ubuntu": "lumicontainer init mine --base-image docker://ubuntu",
    "import https://example.org/Dockerfile": "download it: curl -LO https://example.org/Dockerfile",
    "import .": "lumicontainer import ./Dockerfile",
    "init mine --base-image ubuntu:24.04": "write --base-image docker://ubuntu:24.04",
    "check pytorch.yaml": "name it alone: pytorch",
    "job -p standard-g x.sif": "write --partition standard-g",
    "job -N 2 x.sif -- true": "write --nodes 2",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_habit_gets_its_hint(lumicontainer: Run, command: str) -> None:
    refused(lumicontainer(*command.split()), COMMANDS[command])


def test_no_verb_is_a_habit() -> None:
    assert [verb for verb in VERBS if habit_hint(VERB, verb)] == []


@pytest.mark.parametrize("word", ["mine/hello.yaml", "./a.yaml", "pytorch-deepspeed", "a+b.c"])
def test_what_names_a_recipe_is_no_habit(word: str) -> None:
    assert habit_hint(RECIPE, word) == ""


@pytest.mark.parametrize("word", ["a.sif", "/scratch/x/a.sif", "image", "./a.b.sif", "a.img"])
def test_what_names_an_image_is_no_habit(word: str) -> None:
    assert habit_hint(IMAGE, word) == ""


def test_a_file_that_exists_is_an_image_whatever_its_name(
    lumicontainer: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine:2.0").write_text("text")
    refused(lumicontainer("inspect", "mine:2.0", cwd=tmp_path), "cannot read the image")


def test_a_script_in_place_of_a_command_is_for_lumi_entry(
    lumicontainer: Run, tmp_path: Path
) -> None:
    (tmp_path / "x.sif").write_text("text")
    (tmp_path / "train.py").touch()
    done = lumicontainer("run", "x.sif", "train.py", "--lr", "1", cwd=tmp_path)
    refused(done, "hint: lumicontainer run x.sif -- lumi-entry train.py --lr 1\n")


def test_an_image_without_its_suffix_is_near(lumicontainer: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.sif").touch()
    refused(lumicontainer("inspect", "mine", cwd=tmp_path), "did you mean 'mine.sif'?")


RECIPES = {
    "packages: {python: [timm]}": "name them in a layer: lumicontainer init",
    "channels: [conda-forge]": "lumicontainer import FILE reads an environment of conda",
    "run: pip install timm": "write it into a layer: lumicontainer init",
    "base: docker://ubuntu:24.04": "lumicontainer init mine --base-image docker://ubuntu:24.04",
    "base: Debian": "did you mean 'debian'?",
    "layers: [pytorch==2.9.1]": """write '- pytorch: {version: "2.9.1"}'""",
    "layers: [pytorch: 2.9.1]": """write '- pytorch: {version: "2.9.1"}'""",
    "layers: [pytorch-deepspeed]": "'pytorch-deepspeed' is a recipe",
    "layers: [torch]": "did you mean 'pytorch'?",
    "layers: [no-such-thing]": "lumicontainer list names the layers",
}


@pytest.mark.parametrize("line", RECIPES)
def test_a_recipe_with_a_habit_gets_its_hint(lumicontainer: Run, write: Write, line: str) -> None:
    rows = dict(text.split(": ", 1) for text in ("summary: x", "base: debian", "layers: []", line))
    text = "".join(f"{key}: {value}\n" for key, value in rows.items())
    folder = write({**HELLO, "mine.yaml": text})
    refused(lumicontainer("check", folder / "mine.yaml"), RECIPES[line])
