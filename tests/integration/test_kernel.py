"""lumicontainer kernel: a real Jupyter client uses the kernel, within a job of a real Slurm."""

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from ..cli.conftest import refused, succeeded
from .conftest import ENGINE, STRANGE_LINES, lumicontainer, pasted, run, srun
from .processes import Env, processes_of

CLIENT = Path(__file__).with_name("notebook.py")
RECIPE = {
    "notebook.yaml": "summary: for notebooks\nbase: debian\nlayers: [python, notebook]\n",
    "layers/notebook/layer.yaml": (
        "summary: the kernel of Jupyter\nrequires: [python]\npackages: {python: [ipykernel]}\n"
    ),
    "layers/notebook/install.sh": "true\n",
}


@pytest.fixture(scope="session")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an image with the package ipykernel."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "layers/notebook").mkdir(parents=True)
    for name, text in RECIPE.items():
        (folder / name).write_text(text)
    succeeded(lumicontainer("build", "notebook.yaml", "--no-verify", cwd=folder))
    return folder / "notebook.sif"


def register(image: Path, folder: Path, *options: object) -> Path:
    env = {"XDG_DATA_HOME": str(folder / "data"), "JUPYTER_DATA_DIR": ""}
    done = succeeded(lumicontainer("kernel", image, *options, env=env))
    return Path(done.stdout.removesuffix("\n"))


def test_a_notebook_in_a_job_runs_interrupts_restarts_and_ends_the_kernel(
    notebook: Path, tmp_path: Path, cluster: Env, clients: Path
) -> None:
    image = tmp_path / "it's $(an) image.sif"
    image.symlink_to(notebook)
    written = register(image, tmp_path)
    assert written == tmp_path / "data/jupyter/kernels/notebook/kernel.json"
    # The container has its own /tmp: of the host it sees the file of the connection alone.
    hidden = {"APPTAINER_CONTAIN": "1", "SINGULARITY_CONTAIN": "1"}
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "MARK": str(tmp_path), **hidden}
    env["JUPYTER_RUNTIME_DIR"] = str(tmp_path / "a runtime folder")
    done = srun({**cluster, **env}, clients / "python", CLIENT, "notebook", nodes=1, tasks=1)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    status, printed = results.pop("cell")
    assert (status, printed.split()[0]) == ("ok", "True")
    assert results == {
        "name": "notebook",
        "encrypted": True,
        "interrupted": "KeyboardInterrupt",
        "afterwards": ["ok", "1\n"],
        "restarted": ["ok", "False\n"],
        "alive": False,
    }
    assert processes_of(tmp_path) == []


def test_a_kernel_is_written_once_and_never_over_another(notebook: Path, tmp_path: Path) -> None:
    options = ("--prefix", tmp_path, "--name", "Mine.2")
    file = register(notebook, tmp_path, *options)
    assert file == tmp_path / "share/jupyter/kernels/Mine.2/kernel.json"
    before = file.stat().st_mtime_ns
    assert register(notebook, tmp_path, *options) == file
    assert file.stat().st_mtime_ns == before
    file.write_text("{}")
    says = (f" where: {file}\n", "hint: name another with --name\n")
    refused(lumicontainer("kernel", notebook, *options), *says)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ((), "the image has no Jupyter kernel", ""),
        (("--name", "a/b"), "invalid name of a kernel 'a/b'", ""),
    ],
    ids=["package", "name"],
)
def test_what_no_kernel_can_run_is_refused(
    small: Path, tmp_path: Path, options: tuple[str, ...], message: str, hint: str
) -> None:
    done = lumicontainer("kernel", small, "--prefix", tmp_path, *options)
    refused(done, f"error: {message}", "hint: ", hint)
    assert [*tmp_path.iterdir()] == []


def test_what_extends_an_image_can_be_its_kernel(image: Path, tmp_path: Path) -> None:
    without = lumicontainer("kernel", image, "--prefix", tmp_path)
    command, with_it = re.findall(r"hint: (.+), then repeat with (.+)\n", without.stderr)[0]
    (tmp_path / image.name).symlink_to(image)
    succeeded(pasted(command, cwd=tmp_path))
    words = ["kernel", image.name, *with_it.split(), "--prefix", "."]
    done = succeeded(lumicontainer(*words, cwd=tmp_path))
    argv = json.loads(Path(done.stdout.strip()).read_text())["argv"]
    assert f"{tmp_path}/ipykernel.sqsh:/user-software:image-src=/" in argv


DOCUMENTED = {
    *("base_environment", "image", "workdir", "entrypoint", "writable", "mounts"),
    *("env", "annotations"),
}
"""The keys of CSCS's manual: docs.cscs.ch, software/container-engine/edf."""
SITE = "summary: x\naccelerator: cpu\nbinds:\n  - {path: /srv, reason: data lies there}\n"


def test_an_edf_has_documented_keys_and_all_that_the_image_would_set(
    small: Path, tmp_path: Path
) -> None:
    site = tmp_path / "own/envs/site.yaml"
    site.parent.mkdir(parents=True)
    site.write_text(SITE)
    words = ["--edf", small, "--platform", "site", "--recipes", tmp_path / "own"]
    done = lumicontainer("kernel", *words, env={"EDF_PATH": f"{tmp_path}:/nowhere"})
    assert done.stdout == f"{tmp_path}/small.toml\n", done.stderr
    edf = tomllib.loads((tmp_path / "small.toml").read_text())
    assert edf.keys() <= DOCUMENTED
    assert edf["mounts"] == ["/srv:/srv"]
    # The engine expands ${NAME}, and reads $${NAME} as this text.
    seen = {name: value.replace("$${", "${") for name, value in edf["env"].items()}
    path = "/opt/greet/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"PYTHONNOUSERSITE": "1", "GREETING_STYLE": "plain", "PATH": path}
    assert seen == {**STRANGE_LINES, **own}
    assert not any(re.search(r"(?<!\$)\$\{", value) for value in edf["env"].values())
    greeting = run([ENGINE, "-s", "exec", "--userns", edf["image"], "cat", "/opt/greet/greeting"])
    assert greeting.stdout == "it's $(id) `id` %post {{ x }}", greeting.stderr


def test_the_file_system_of_an_image_is_copied_once(small: Path, tmp_path: Path) -> None:
    image = Path(shutil.copy(small, tmp_path / "small.sif"))
    squashfs = tmp_path / "small.sif.squashfs"

    def written() -> int:
        succeeded(lumicontainer("kernel", "--edf", image, "--prefix", tmp_path))
        return squashfs.stat().st_mtime_ns

    first = written()
    assert written() == first
    image.touch()
    assert written() == first
