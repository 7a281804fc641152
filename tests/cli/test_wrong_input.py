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
        (["verify", "missing.sif", "--json", "x.json"], "write --json >x.json"),
        (["build", "pytorch", "--zzz"], "lumicontainer build --help"),
        (["build", "pytorch", "--platfrom", "lumi-g"], "did you mean '--platform'?"),
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


def test_a_flag_of_deepspeed_that_the_cpu_cannot_build_is_refused_by_name(
    lumicontainer: Run,
) -> None:
    done = lumicontainer("show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_GDS=true")
    assert done.returncode == 2
    assert "cannot build DS_BUILD_GDS for 'cpu'" in done.stderr


def test_the_misspelt_flags_of_the_slides_are_refused_by_name(lumicontainer: Run) -> None:
    done = lumicontainer(
        "show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_SPARSE_ATTEN=false"
    )
    assert done.returncode == 2
    assert "did you mean 'DS_BUILD_SPARSE_ATTN'?" in done.stderr


def test_the_platform_whose_variants_are_missing_is_told_layer_by_layer(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**HELLO, "layers/greet/layer.yaml": "summary: x\nvariants:\n  cpu: {}\n"})
    done = lumicontainer("show", "hello", "--recipes", folder, "--platform", "lumi-g")
    assert done.returncode == 2
    assert "has no variant for the accelerator 'rocm'" in done.stderr


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_a_number_of_jobs_that_cannot_be_is_refused(
    lumicontainer: Run, write: Write, jobs: str
) -> None:
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), "--dry-run", f"--jobs={jobs}")
    assert done.returncode == 2
    assert f"argument --jobs/-j: expected a whole number from 1 on, got '{jobs}'" in done.stderr


def test_no_option_shows_the_name_of_a_function_for_a_wrong_value() -> None:
    parser = make_parser(list(VERBS))
    (verbs,) = (each for each in parser._actions if isinstance(each.choices, dict))
    kinds = {action.type for sub in verbs.choices.values() for action in sub._actions}
    for kind in kinds - {None, Path}:
        with pytest.raises(argparse.ArgumentTypeError):
            kind("many \x1b[2J")


def test_a_dry_run_refuses_what_the_build_would_refuse(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    words = ("build", "hello", "--recipes", write(HELLO), "--dry-run")
    assert lumicontainer(*words, "--output", tmp_path).returncode == 2
    assert lumicontainer(*words, "--output", tmp_path / "no/x.sif").returncode == 2


@pytest.mark.parametrize("content", ["precious notes\n", ""])
def test_a_file_that_is_no_image_is_never_overwritten(
    lumicontainer: Run, write: Write, tmp_path: Path, content: str
) -> None:
    output = tmp_path / "notes.txt"
    output.write_text(content)
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), "--output", output)
    assert done.returncode == 2
    assert "a build replaces only images" in done.stderr
    assert output.read_text() == content


def test_an_output_in_a_missing_folder_is_told_before_anything_is_begun(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    done = lumicontainer(
        "build", "hello", "--recipes", write(HELLO), "--output", tmp_path / "no/x.sif"
    )
    assert done.returncode == 2
    assert "the image's folder does not exist" in done.stderr


def test_without_an_engine_the_error_says_how_to_get_one(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    # Only this folder is searched, and what find() adds to it for sbin has no engine either.
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), env={"PATH": str(tmp_path)})
    assert done.returncode == 3
    assert "container engine not found" in done.stderr
    assert "make engine" in done.stderr


def test_a_size_of_the_cache_that_is_none_is_told_before_anything_is_begun(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    place = {"LUMICONTAINER_CACHE": str(tmp_path / "cache"), "LUMICONTAINER_CACHE_SIZE": "8GBs"}
    nothing = {"PATH": str(tmp_path)}
    done = lumicontainer("build", "hello", "--recipes", write(HELLO), env={**place, **nothing})
    assert done.returncode == 2
    assert "invalid size '8GBs'\n  where: LUMICONTAINER_CACHE_SIZE" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_place_for_builds_that_cannot_be_written_is_told(
    lumicontainer: Run, write: Write
) -> None:
    done = lumicontainer(
        "build", "hello", "--recipes", write(HELLO), env={"LUMICONTAINER_TMPDIR": "/proc/self"}
    )
    assert done.returncode == 3
    assert "name another place with LUMICONTAINER_TMPDIR" in done.stderr


def test_a_place_for_builds_in_which_debootstrap_cannot_work_is_refused(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    place = tmp_path / "two words"
    place.mkdir()
    words = ("build", "hello", "--recipes", write(HELLO))
    done = lumicontainer(*words, env={"LUMICONTAINER_TMPDIR": str(place)})
    assert done.returncode == 3
    assert "debootstrap cannot work in this folder" in done.stderr
    assert "name another folder with LUMICONTAINER_TMPDIR" in done.stderr
    assert not list(place.glob("*/[!.]*"))


def test_a_folder_for_builds_that_others_can_enter_is_refused(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    planted = tmp_path / f"lumicontainer-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    done = lumicontainer(
        "build", "hello", "--recipes", write(HELLO), env={"LUMICONTAINER_TMPDIR": str(tmp_path)}
    )
    assert done.returncode == 3
    assert "is not private" in done.stderr


def on_a_tmpfs(room: Path, options: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line where ``room`` is a small file system of its own."""
    room.mkdir()
    program = [sys.executable, "-m", "lumicontainer", *map(str, words)]
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"{options},{owned()}", "tmpfs", str(room)])
    return subprocess.run(
        [*prepared("mount", mount), *program],
        env={
            **os.environ,
            "LUMICONTAINER_TMPDIR": str(room),
            "LUMICONTAINER_CACHE": str(room.parent / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_room_the_error_says_how_much_is_needed_and_how_much_is_free(
    write: Write, tmp_path: Path
) -> None:
    words = ("build", "hello", "--recipes", write(HELLO), "--output", tmp_path / "x.sif")
    done = on_a_tmpfs(tmp_path / "room", "size=64m", *words)
    assert done.returncode == 8
    assert "it needs 4.1 GiB, and 64 MiB are free" in done.stderr


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_begun(
    write: Write, tmp_path: Path
) -> None:
    room = tmp_path / "room"
    words = ("build", "hello", "--recipes", write(HELLO), "--output", room / "x.sif")
    done = on_a_tmpfs(room, "ro", *words)
    assert done.returncode == 2
    assert "cannot write to the image's folder" in done.stderr
