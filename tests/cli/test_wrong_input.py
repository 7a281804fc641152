"""Wrong input gets a clear error with exit code 2, and nothing is lost."""

import argparse
import os
import shlex
import sys
from pathlib import Path

import pytest

from lumicontainer.commands.parser import VERBS, make_parser

from ..conftest import HELLO, Write
from ..namespaces import owned, prepared
from ..programs import run
from .conftest import Hello, Run, refused

LAYER = HELLO["layers/greet/layer.yaml"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["biuld", "hello"], "did you mean 'build'?"),
        (["--platform", "lumi-g", "show", "pytorch"], "after the verb: lumicontainer VERB --plat"),
        (["-q", "--json", "list"], "unknown option '--json' before the verb"),
        (["--verbos", "list"], "did you mean '--verbose'?"),
        (["show", "pytorch-depspeed"], "did you mean 'pytorch-deepspeed'?"),
        (["show", "pytorch", "--set", "nothing"], "--set layer.parameter=value"),
        (["render", "pytorch-deepspeed", "--format", "odf"], "did you mean 'def'?"),
        (["inspect", "missing.sif"], "image.sif"),
        (["run", "missing.sif"], "-- COMMAND"),
        (["run", "missing.sif", "--", "true"], "image.sif"),
        (
            ["run", "missing.sif", "--platform", "lumi-g", "--", "true"],
            "options before IMAGE",
        ),
        (["verify", "missing.sif"], "image.sif"),
        (["verify", "missing.sif", "--require", "gpus"], "use one of these"),
        (["verify", "missing.sif", "--nodes", "0"], "--help"),
        (["reframe", "missing.sif"], "image.sif"),
        (["verify", "missing.sif", "--json", "x.json"], "lumicontainer verify --help"),
        (["build", "x", "--jobs=0"], "--jobs/-j: expected a whole number from 1 on, got '0'"),
        (["build", "x", "--jobs=many"], "expected a whole number from 1 on, got 'many'"),
        (["build", "pytorch", "--zzz"], "lumicontainer build --help"),
        (["build", "pytorch", "--platfrom", "lumi-g"], "did you mean '--platform'?"),
        (["build", "pytorch", "--on", "small", "--time", "2:00"], "lumicontainer build --help"),
        (["build", "pytorch", "--on", ""], "sinfo lists the partitions"),
        (["build", "pytorch", "--time", "2h", "--jobs-at-once", "2"], "add --on PARTITION"),
        (["cache", "prune", "--max-size", "much"], "invalid size 'much'\n  where: --max-size"),
        (["cache", "publish"], "expected a recipe or --all"),
        (["cache", "publish", "hello", "--all"], "expected a recipe or --all"),
        (["cache", "prune", "--others"], "--others is an option of --shared"),
        (["module", "x.sif", "--prefix", "y", "--env", "A=$(id)"], "invalid variable 'A=$(id)'"),
        (["module", "x.sif", "--prefix", "y", "--env", "A-B=1"], "invalid variable 'A-B=1'"),
        (["job", "--partition", "a\n#SBATCH x", "x.sif"], "--partition: expected a name of Slurm"),
        (["job", "--account", "a\n#SBATCH x", "x.sif"], "--account: expected a name of Slurm"),
        *(
            ([*words, option, value, "x"], f"{option}: expected a name of Slurm")
            for words, option in (
                (["job"], "--account"),
                (["job"], "--partition"),
                (["verify"], "--account"),
                (["verify"], "--partition"),
                (["build"], "--on"),
                (["build", "--on", "small"], "--account"),
            )
            for value in ("$(id) 'b", "é")
        ),
        (["job", "--account=-x", "x.sif"], "--account: expected a name of Slurm"),
        (["build", "--on=-x", "x"], "--on: expected a name of Slurm"),
        (["cache", "list", "--jsom"], "did you mean '--json'?"),
        (["show", "pytorch", "--kind", "thing"], "lumicontainer show --help"),
        (["verify", "x.sif", "--account", "project_465000001"], "add --nodes or --partition"),
        (["show", "lumi-g", "--set", "x"], "hint: leave it out: 'lumi-g' is a platform"),
        (["show", "lumi-g", "--profile", "x"], "--profile is an option of a recipe"),
        (["show", "python", "--platform", "x"], "leave it out: 'python' is a layer"),
        (["shell", "missing.sif"], "image.sif"),
    ],
)
def test_the_error_names_the_hint(lumicontainer: Run, words: list[str], hint: str) -> None:
    refused(lumicontainer(*words), hint)


def test_a_build_in_a_job_needs_slurm(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("build", "pytorch", "--on", "small", env={"PATH": str(tmp_path)})
    refused(done, "this host has no Slurm", "leave out --on", code=3)


def test_what_proot_cannot_do_is_not_sent(lumicontainer: Run, hello: Hello, tmp_path: Path) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    sbatch.chmod(0o755)
    words = hello({"layers/greet/install.sh": "mknod /opt/null c 1 3\nmount /b\n"})
    options = ("--platform", "workstation", "--on", "small", "--runtime", "proot")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    says = (
        "install.sh:1:1\n    why: PRoot cannot make device nodes\n",
        "install.sh:2:1\n    why: PRoot cannot mount file systems\n",
    )
    refused(lumicontainer("build", *words, *options, env=env), *says)
    assert not (tmp_path / "called").exists()


def test_no_option_shows_the_name_of_a_function_for_a_wrong_value() -> None:
    parser = make_parser(list(VERBS))
    (verbs,) = (each for each in parser._actions if isinstance(each.choices, dict))
    kinds = {action.type for sub in verbs.choices.values() for action in sub._actions}
    for kind in kinds - {None, Path}:
        with pytest.raises(argparse.ArgumentTypeError):
            kind("many \x1b[2J")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("own", "hint: "),
        ("own/no/x.sif", "the image's folder does not exist"),
        ("notes.txt", "only an image is replaced"),
        ("empty.txt", "only an image is replaced"),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", [["--dry-run"], []], ids=["dry run", "build"])
def test_a_build_and_a_dry_run_refuse_the_same(
    lumicontainer: Run, write: Write, output: str, message: str, mode: list[str]
) -> None:
    folder = write(HELLO).parent
    (folder / "notes.txt").write_text("precious notes\n")
    (folder / "empty.txt").touch()
    words = ("build", "own/hello.yaml", "--output")
    refused(lumicontainer(*words, output, *mode, cwd=folder), message)
    assert (folder / "notes.txt").read_text() == "precious notes\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mirror", "x"), "write --mirror FROM=TO"),
        (("--secret", "id=x"), "invalid secret 'id=x'"),
        (("--secret", "id=x,src=/etc/hostname"), "no layer requires the secret 'x'"),
        ((), "add --secret id=token,src=FILE"),
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", [["--dry-run"], []], ids=["dry run", "build"])
def test_a_dry_run_also_refuses_secrets_and_mirrors_that_are_wrong(
    lumicontainer: Run, hello: Hello, options: tuple[str, ...], message: str, mode: list[str]
) -> None:
    files = {} if options else {"layers/greet/layer.yaml": f"{LAYER}secrets: [token]\n"}
    refused(lumicontainer("build", *hello(files), *options, *mode), message)


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("PATH", "{folder}", 3, "container engine not found"),
        ("LUMICONTAINER_CACHE_SIZE", "8GBs", 2, "invalid size '8GBs'"),
        ("SOURCE_DATE_EPOCH", "today", 2, "invalid SOURCE_DATE_EPOCH 'today'"),
        ("LUMICONTAINER_TMPDIR", "/proc/self", 3, "name another place with LUMICONTAINER_TMPDIR"),
        ("LUMICONTAINER_TMPDIR", "{folder}/two words", 3, "debootstrap cannot work in this folder"),
        ("LUMICONTAINER_TMPDIR", "{folder}", 3, "is not private"),
    ],
)
def test_a_host_that_cannot_build_is_reported_before_anything_begins(
    lumicontainer: Run, hello: Hello, tmp_path: Path, name: str, value: str, code: int, message: str
) -> None:
    (tmp_path / "two words").mkdir()
    # A folder that others can enter.
    planted = tmp_path / f"lumicontainer-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    env = {"LUMICONTAINER_CACHE": str(tmp_path / "cache"), name: value.format(folder=tmp_path)}
    refused(lumicontainer("build", *hello(), env=env), message, "hint: ", code=code)
    assert not list((tmp_path / "cache").glob("objects/*"))
    assert not list((tmp_path / "two words").glob("*/[!.]*"))


@pytest.mark.parametrize(
    ("options", "output", "code", "message"),
    [
        ("size=64m", "x.sif", 8, "it needs 4.1 GiB, and 64.0 MiB are free"),
        ("ro", "disk/x.sif", 2, "cannot write to the image's folder"),
    ],
    ids=["no space for builds", "no image can be written"],
)
def test_a_small_or_closed_file_system_is_reported_before_anything_begins(
    hello: Hello, tmp_path: Path, options: str, output: str, code: int, message: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"{options},{owned()}", "tmpfs", str(disk)])
    words = (sys.executable, "-m", "lumicontainer", "build", *hello(), "--output")
    places = {"LUMICONTAINER_TMPDIR": str(disk), "LUMICONTAINER_CACHE": str(tmp_path / "cache")}
    done = run([*prepared("mount", mount), *words, tmp_path / output], env=places)
    refused(done, message, code=code)
