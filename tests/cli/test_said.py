"""Whatever has no effect, or another one than meant, is said."""

import os
import shutil
from pathlib import Path

import pytest

from lumicontainer.host.binds import missing_of_user
from lumicontainer.image import sif

from ..conftest import HELLO, Write
from .conftest import Hello, Run, refused


def test_a_build_says_that_most_layers_are_left_out(lumicontainer: Run) -> None:
    done = lumicontainer("build", "rocm", "--platform", "workstation", "--dry-run")
    assert done.returncode == 0
    assert "leaves out most layers of 'rocm'" in done.stderr
    assert "build rocm --platform NAME" in done.stderr
    usual = lumicontainer("build", "pytorch", "--platform", "workstation", "--dry-run")
    assert usual.stderr == ""


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("DS_BUILD_FUSED_ADAM=0", "--set deepspeed.DS_BUILD_FUSED_ADAM=false"),
        ("DS_BUILD_OPS=1", "lumicontainer show deepspeed --kind layer"),
        ("HOROVOD_GPU_OPERATIONS=NCCL", "lumicontainer show horovod --kind layer"),
    ],
)
def test_a_build_says_which_variables_it_does_not_read(
    lumicontainer: Run, monkeypatch: pytest.MonkeyPatch, variable: str, hint: str
) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    words = ("--platform", "workstation", "--dry-run")
    done = lumicontainer("build", "pytorch-deepspeed", *words)
    assert f"the build does not read {name} of this shell" in done.stderr
    assert hint in done.stderr
    assert lumicontainer("build", "jax", *words).stderr == ""


@pytest.mark.parametrize("words", ["rocm.version=9.9", "rocm.verison=6.4.4"])
def test_a_value_of_a_layer_that_is_left_out_is_checked(lumicontainer: Run, words: str) -> None:
    where = ("--platform", "workstation", "--set", words)
    refused(lumicontainer("check", "rocm", *where), f"--set {words.partition('=')[0]}")
    good = ("--platform", "workstation", "--set", "rocm.version=6.4.4")
    assert lumicontainer("check", "rocm", *good).returncode == 0


def test_a_version_that_no_layer_has_is_said(lumicontainer: Run) -> None:
    words = ("--platform", "workstation", "--dry-run", "--set")
    done = lumicontainer("build", "pytorch", *words, "pytorch.version=9.9.9")
    assert "warning: pytorch 9.9.9 may not exist\n  where: --set pytorch.version\n" in done.stderr
    known = lumicontainer("build", "pytorch-deepspeed", *words, "deepspeed.version=0.18.9")
    assert known.stderr == ""


def test_the_path_of_a_shipped_lock_is_short(lumicontainer: Run) -> None:
    done = lumicontainer("show", "pytorch-deepspeed", "--platform", "workstation")
    assert "\nlock recipes/locks/pytorch-deepspeed.workstation.lock.yaml: " in done.stdout


@pytest.mark.parametrize(
    ("folder", "what"),
    [("layers", "got a folder of layers"), ("layers/greet", "got a layer")],
)
def test_a_folder_of_layers_is_none_of_recipes(
    lumicontainer: Run, write: Write, folder: str, what: str
) -> None:
    own = write(HELLO)
    for words in (("list",), ("build", "hello", "--dry-run")):
        done = lumicontainer(*words, "--recipes", own / folder)
        refused(done, what, f"--recipes {own}")


def test_a_list_has_all_that_can_be_read_beside_a_misnamed_layer(
    lumicontainer: Run, write: Write
) -> None:
    own = write(HELLO)
    (own / "layers/wrong").mkdir()
    shutil.copy(own / "layers/greet/layer.yaml", own / "layers/wrong/layer.yml")
    done = lumicontainer("list", "--recipes", own)
    assert done.returncode == 2
    assert "  hello " in done.stdout
    assert "  greet " in done.stdout
    assert "layers/wrong/layer.yml" in done.stderr


def test_a_dry_run_refuses_a_runtime_that_this_host_lacks(
    lumicontainer: Run, hello: Hello, tmp_path: Path
) -> None:
    env = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    words = ("build", *hello(), "--runtime", "docker", "--dry-run")
    refused(lumicontainer(*words, env=env), "hint: ", code=3)


def test_binds_of_the_user_that_this_host_lacks_are_named(tmp_path: Path) -> None:
    here = str(tmp_path)
    env = {"SINGULARITY_BIND": f"{here}:/a:ro,/no/such:/b", "APPTAINER_BINDPATH": "/nor/this"}
    assert [(each.what.split()[0], each.where) for each in missing_of_user(env)] == [
        ("SINGULARITY_BIND", "/no/such"),
        ("APPTAINER_BINDPATH", "/nor/this"),
    ]
    assert not [*missing_of_user({"SINGULARITY_BIND": f"{here},{here}:/x", **os.environ})]


def test_an_image_that_the_user_may_not_read_has_a_hint(
    lumicontainer: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "x.sif"
    image.touch()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(sif, "open_regular", refuse)
    refused(lumicontainer("inspect", image), "Permission denied", f"chmod a+r {image}")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("token", "write --secret id=NAME,src=FILE"),
        ("id=token,env=TOKEN", "write --secret id=NAME,src=FILE"),
        ("id=token,src=/no/such", "name the file that holds the secret: src=FILE"),
        ("id=other,src=/etc/hostname", "write 'secrets: [other]' into a layer"),
    ],
)
def test_a_secret_that_cannot_be_used_has_a_hint(
    lumicontainer: Run, hello: Hello, value: str, hint: str
) -> None:
    refused(lumicontainer("build", *hello(), "--secret", value, "--dry-run"), hint)
