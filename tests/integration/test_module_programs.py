"""The programs of a module start the image's, from a shell, by srun and by mpirun."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from ..cli.conftest import refused, succeeded
from .conftest import ENGINE, lumicontainer, run, srun
from .processes import Env

USERNS = {"APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"}
MPI = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(w.rank, w.size)"
READY = "print('ready', flush=True); signal.pause()"


def programs(image: Path, prefix: Path) -> Path:
    """Write the module of an image, and return the folder of its programs."""
    succeeded(lumicontainer("module", image, "--prefix", prefix, "--platform", "workstation"))
    return next(prefix.glob("programs/*/*/bin"))


@pytest.fixture
def small_programs(small: Path, tmp_path: Path) -> Path:
    return programs(small, tmp_path / "a folder")


def test_only_programs_that_the_image_has_are_there(small_programs: Path) -> None:
    names = {"python3", "lumi-entry", "lumi-verify", "lumi-shell", "run-in-image"}
    assert {path.name for path in small_programs.iterdir()} == names


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (f"import signal; {READY}", -signal.SIGTERM),
        (f"import signal, sys\nsignal.signal(15, lambda *_: sys.exit(5)); {READY}", 5),
    ],
    ids=["default", "handled"],
)
def test_a_signal_reaches_the_program_and_the_caller_ends_like_it(
    small_programs: Path, code: str, status: int
) -> None:
    words = [small_programs / "python3", "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"ready\n"
        # Apptainer loses a signal of the first moment, before it has a handler.
        while child.poll() is None:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=1)
        assert child.returncode == status


def test_in_a_container_a_program_starts_no_other(small: Path, small_programs: Path) -> None:
    folder = small_programs.parents[4]
    words = [ENGINE, "--silent", "exec", "--bind", folder, small, small_programs / "python3"]
    done = run(words, env=USERNS)
    refused(done, "error: cannot start python3: this is a container already\n  hint: ", code=3)


def test_without_the_image_a_program_says_what_to_do(small: Path, tmp_path: Path) -> None:
    image = tmp_path / "small-1.sif"
    image.symlink_to(small)
    folder = programs(image, tmp_path)
    image.unlink()
    done = run([folder / "python3"])
    refused(done, f"error: image not found: {image}\n  hint: copy it there", code=3)


def test_ranks_of_srun_and_of_mpirun_find_each_other(
    image: Path, tmp_path: Path, cluster: Env, clients: Path
) -> None:
    python = programs(image, tmp_path / "a folder") / "python"
    by_srun = srun(cluster, python, "-c", MPI, mpi="pmi2")
    assert sorted(by_srun.stdout.splitlines()) == [f"{n} 4" for n in range(4)], by_srun.stderr
    by_mpirun = run([clients / "mpirun", "-n", "2", python, "-c", MPI])
    assert sorted(by_mpirun.stdout.splitlines()) == ["0 2", "1 2"], by_mpirun.stderr


def test_a_second_call_writes_nothing_and_removes_old_programs(small: Path, tmp_path: Path) -> None:
    folder = programs(small, tmp_path)
    (folder / "torchrun").symlink_to("run-in-image")
    (folder / "of-the-user").write_text("")

    def times() -> dict[Path, int]:
        return {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*") if each.is_file()}

    before = times()
    again = lumicontainer("module", small, "--prefix", tmp_path, "--platform", "workstation")
    assert again.stderr == ""
    assert before.keys() - times().keys() == {folder / "torchrun"}
    assert times().items() <= before.items()


def test_every_file_of_another_program_is_named_and_kept(small: Path, tmp_path: Path) -> None:
    file = tmp_path / "modules/small/workstation.lua"
    link = tmp_path / "programs/small/workstation/bin/python3"
    for path in (file, link):
        path.parent.mkdir(parents=True)
        path.write_text("-- of the site\n")
    done = lumicontainer("module", small, "--prefix", tmp_path)
    places = (f" where: {file}\n", f" where: {link}\n")
    refused(done, *places, "  hint: name another --prefix\n")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {file, link}


@pytest.mark.parametrize(
    ("names", "prefix", "message"),
    [
        (["a.sif", "b.sif"], "site", "two images become the module small/workstation"),
        (["small-a b.sif"], "site", "invalid version of a module 'a b'"),
        (["small-1.sif"], "a:b", "cannot keep modules in this folder"),
    ],
    ids=["two", "version", "prefix"],
)
def test_what_suits_no_module_is_refused_and_nothing_is_written(
    small: Path, tmp_path: Path, names: list[str], prefix: str, message: str
) -> None:
    for name in names:
        (tmp_path / name).symlink_to(small)
    words = ["--prefix", prefix, "--platform", "workstation"]
    done = lumicontainer("module", *names, *words, cwd=tmp_path)
    refused(done, f"error: {message}", "hint: ")
    assert {path.name for path in tmp_path.iterdir()} == {*names}
