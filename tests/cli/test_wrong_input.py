"""Wrong input gets a clear error with exit code 2, and nothing is lost."""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.commands.parser import VERBS, make_parser

from ..conftest import HELLO, Write
from ..namespaces import owned, prepared
from ..programs import run
from .conftest import Run


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["biuld", "hello"], "did you mean 'build'?"),
        (["show", "pytorch-depspeed"], "did you mean 'pytorch-deepspeed'?"),
        (["show", "pytorch-deepspeed", "--platform", "workstaton"], "did you mean 'workstation'?"),
        (["show", "pytorch-deepspeed", "--set", "deepsped.version=1"], "did you mean 'deepspeed'?"),
        (
            ["show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_FUSED_ADM=true"],
            "did you mean 'DS_BUILD_FUSED_ADAM'?",
        ),
        (
            ["show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_SPARSE_ATTEN=false"],
            "did you mean 'DS_BUILD_SPARSE_ATTN'?",
        ),
        (
            ["show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_GDS=true"],
            "cannot build DS_BUILD_GDS for 'cpu'",
        ),
        (["show", "pytorch-deepspeed", "--set", "nothing"], "--set layer.parameter=value"),
        (["show", "--recipes", "nowhere", "hello"], "check --recipes"),
        (["render", "pytorch-deepspeed", "--format", "odf"], "--help"),
        (["inspect", "missing.sif"], "image.sif"),
        (["run", "missing.sif"], "-- COMMAND"),
        (["run", "missing.sif", "--", "true"], "image.sif"),
        (
            ["run", "missing.sif", "--platform", "lumi-g", "--", "true"],
            "write options before IMAGE",
        ),
        (["verify", "missing.sif"], "image.sif"),
        (["verify", "missing.sif", "--require", "gpus"], "use one of these"),
        (["verify", "missing.sif", "--nodes", "0"], "--help"),
        (["reframe", "missing.sif"], "image.sif"),
        (["verify", "missing.sif", "--json", "x.json"], "lumicontainer verify --help"),
        (["build", "pytorch", "--zzz"], "lumicontainer build --help"),
        (["build", "pytorch", "--platfrom", "lumi-g"], "did you mean '--platform'?"),
        (["build", "pytorch", "--on", "small", "--time", "2:00"], "lumicontainer build --help"),
        (["build", "pytorch", "--on", ""], "sinfo lists the partitions"),
        (["build", "pytorch", "--time", "2h", "--jobs-at-once", "2"], "add --on PARTITION"),
        (["cache", "list", "--jsom"], "did you mean '--json'?"),
        (["show", "pytorch", "--kind", "thing"], "lumicontainer show --help"),
        (["shell", "missing.sif"], "image.sif"),
    ],
)
def test_the_error_names_the_hint(lumicontainer: Run, words: list[str], hint: str) -> None:
    done = lumicontainer(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error: " in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_build_in_a_job_needs_slurm(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("build", "pytorch", "--on", "small", env={"PATH": str(tmp_path)})
    assert done.returncode == 3
    assert "this host has no Slurm" in done.stderr
    assert "leave out --on" in done.stderr


def test_what_proot_cannot_do_is_refused_before_a_job_is_sent(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    folder = write({**HELLO, "layers/greet/install.sh": "mknod /opt/null c 1 3\nmount /b\n"})
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    sbatch.chmod(0o755)
    words = ("hello", "--recipes", folder, "--platform", "workstation", "--on", "small")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = lumicontainer("build", *words, "--runtime", "proot", env=env)
    assert done.returncode == 2, done.stderr
    assert "install.sh:1:1\n    why: PRoot cannot make device nodes\n" in done.stderr
    assert "install.sh:2:1\n    why: PRoot cannot mount file systems\n" in done.stderr
    assert not (tmp_path / "called").exists()


def test_the_platform_whose_variants_are_missing_is_reported_layer_by_layer(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**HELLO, "layers/greet/layer.yaml": "summary: x\nvariants:\n  cpu: {}\n"})
    done = lumicontainer("show", "hello", "--recipes", folder, "--platform", "lumi-g")
    assert done.returncode == 2
    assert "has no variant for the accelerator 'rocm'" in done.stderr


def test_no_option_shows_the_name_of_a_function_for_a_wrong_value() -> None:
    parser = make_parser(list(VERBS))
    (verbs,) = (each for each in parser._actions if isinstance(each.choices, dict))
    kinds = {action.type for sub in verbs.choices.values() for action in sub._actions}
    for kind in kinds - {None, Path}:
        with pytest.raises(argparse.ArgumentTypeError):
            kind("many \x1b[2J")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs=0"], "argument --jobs/-j: expected a whole number from 1 on, got '0'"),
        (["--jobs=many"], "argument --jobs/-j: expected a whole number from 1 on, got 'many'"),
        (["--output", "own"], "hint: "),
        (["--output", "own/no/x.sif"], "the image's folder does not exist"),
        (["--output", "notes.txt"], "a build replaces only images"),
        (["--output", "empty.txt"], "a build replaces only images"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
@pytest.mark.parametrize("mode", [["--dry-run"], []], ids=["dry run", "build"])
def test_a_build_and_a_dry_run_refuse_the_same(
    lumicontainer: Run, write: Write, words: list[str], message: str, mode: list[str]
) -> None:
    folder = write(HELLO).parent
    (folder / "notes.txt").write_text("precious notes\n")
    (folder / "empty.txt").touch()
    done = lumicontainer("build", "own/hello.yaml", *words, *mode, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert (folder / "notes.txt").read_text() == "precious notes\n"


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("PATH", "{folder}", 3, "container engine not found"),
        ("LUMICONTAINER_CACHE_SIZE", "8GBs", 2, "invalid size '8GBs'"),
        ("LUMICONTAINER_TMPDIR", "/proc/self", 3, "name another place with LUMICONTAINER_TMPDIR"),
        ("LUMICONTAINER_TMPDIR", "{folder}/two words", 3, "debootstrap cannot work in this folder"),
        ("LUMICONTAINER_TMPDIR", "{folder}", 3, "is not private"),
    ],
)
def test_a_host_that_cannot_build_is_reported_before_anything_begins(
    lumicontainer: Run, write: Write, tmp_path: Path, name: str, value: str, code: int, message: str
) -> None:
    (tmp_path / "two words").mkdir()
    # A folder that others can enter.
    planted = tmp_path / f"lumicontainer-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    env = {"LUMICONTAINER_CACHE": str(tmp_path / "cache"), name: value.format(folder=tmp_path)}
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), env=env)
    assert done.returncode == code
    assert message in done.stderr
    assert "hint: " in done.stderr
    assert not list((tmp_path / "cache").glob("objects/*"))
    assert not list((tmp_path / "two words").glob("*/[!.]*"))


def on_a_tmpfs(disk: Path, options: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line where ``disk`` is a small file system of its own."""
    disk.mkdir()
    program = [sys.executable, "-m", "lumicontainer", *map(str, words)]
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"{options},{owned()}", "tmpfs", str(disk)])
    places = {"TMPDIR": str(disk), "CACHE": str(disk.parent / "cache")}
    settings = {f"LUMICONTAINER_{name}": place for name, place in places.items()}
    return run([*prepared("mount", mount), *program], env=settings)


def test_without_space_the_error_says_how_much_is_needed_and_how_much_is_free(
    write: Write, tmp_path: Path
) -> None:
    words = ("build", "hello", "--recipes", write(HELLO), "--output", tmp_path / "x.sif")
    done = on_a_tmpfs(tmp_path / "disk", "size=64m", *words)
    assert done.returncode == 8
    assert "it needs 4.1 GiB, and 64.0 MiB are free" in done.stderr


def test_a_folder_that_cannot_be_written_is_reported_before_anything_is_begun(
    write: Write, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    words = ("build", "hello", "--recipes", write(HELLO), "--output", disk / "x.sif")
    done = on_a_tmpfs(disk, "ro", *words)
    assert done.returncode == 2
    assert "cannot write to the image's folder" in done.stderr
