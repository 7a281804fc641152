"""lumicontainer build as a job of a real Slurm, with compile steps as further jobs."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.jobs.follow import COMMAND

from ..cli.conftest import refused, succeeded
from ..namespaces import as_root, owned, prepared
from .conftest import lumicontainer, run, write_small
from .processes import SECONDS, Env, Gate, jobs_of, name_of, processes_of, started, wait_for
from .test_layers import COMPILED, compiled_layer

NODES = {"nid005001", "nid005002"}
ENDLESS = "exec tail -f /dev/null"
NewCache = Callable[[Path], dict[str, str]]


@dataclass
class Login:
    """A user's place on a login node of the cluster."""

    folder: Path
    env: dict[str, str]

    @property
    def image(self) -> Path:
        return self.folder / "small.sif"

    def command(self, *words: object) -> tuple[object, ...]:
        job = ("--on", "standard-g", "--time", "20m", "--jobs", 4, "--no-verify")
        return ("build", "small", "--recipes", self.folder / "own", *job, *words)

    def build(self, *words: object) -> subprocess.CompletedProcess[str]:
        return lumicontainer(*self.command(*words), cwd=self.folder, env=self.env)

    def write(self, **waits: str) -> None:
        """Write the recipe; the layers that are named run a line of shell while they compile."""
        slow = [compiled_layer(name, wait=line) for name, line in waits.items()]
        changes = {file: text for layer in slow for file, text in layer.items()}
        write_small(self.folder / "own", {**COMPILED, **changes})

    @contextmanager
    def begun(self, *words: object, until: str) -> Iterator[subprocess.Popen[str]]:
        """Start a build, and return when it has printed what the pattern ``until`` matches."""
        command = (sys.executable, "-m", "lumicontainer", *self.command(*words))
        with started(command, cwd=self.folder, env=self.env) as process:
            assert any(re.search(until, line) for line in process.stderr)
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=SECONDS)

    def running(self, count: int) -> list[str]:
        """Return the numbers of the jobs of a build, the first is its own, once so many run."""
        wait_for(lambda: self.jobs("%T") == ["RUNNING"] * count)
        return sorted(self.jobs(), key=int)

    def jobs(self, form: str = "%i") -> list[str]:
        """Return the jobs that were sent from here, and wait or run."""
        return jobs_of(self.env, self.folder, form)

    def known_to_slurm(self, number: str) -> str:
        """Return the batch script of a job, and what else Slurm prints of it."""
        script = succeeded(run(["scontrol", "write", "batch_script", number, "-"], env=self.env))
        shown = run(["scontrol", "show", "job", "--detail", number], env=self.env)
        return script.stdout + shown.stdout

    def left(self) -> set[str]:
        """Return what lies in the folders of a build beside what belongs there."""
        names = {path.name for path in self.folder.iterdir()} - {"own", "cache", "place"}
        jobs = {path.name for path in (self.folder / "cache/jobs").iterdir()}
        drafts = {path.name for path in (self.folder / "cache/objects").glob(".*")}
        return names | jobs | drafts

    def assert_nothing_runs(self) -> None:
        """Assert that no job, no process and no folder of a build on a node is left."""
        assert self.jobs() == []
        assert processes_of(self.folder) == []
        assert list((self.folder / "place").glob("lumicontainer-*/small-*")) == []

    def assert_goes_on(self, *cached: str) -> None:
        """Assert that the next build succeeds and takes steps from the cache."""
        done = self.build()
        assert done.returncode == 0, done.stderr
        for step in cached:
            assert re.search(rf"(?m)\] {step} +cached", done.stderr), done.stderr


def ended(process: subprocess.Popen[str], code: int, *patterns: str) -> None:
    """Assert how a build ends, and what it prints."""
    _, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    assert [each for each in patterns if not re.search(each, stderr)] == [], stderr


@pytest.fixture
def login(new_cache: NewCache, cluster: Env, tmp_path: Path) -> Login:
    """Return a place with a cache that has the base, and two layers that compile."""
    (tmp_path / "place").mkdir()
    env = {**cluster, **new_cache(tmp_path / "cache"), "MARK": str(tmp_path)}
    login = Login(tmp_path, {**env, "LUMICONTAINER_TMPDIR": str(tmp_path / "place")})
    login.write()
    return login


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with Gate(name_of(tmp_path)) as gate:
        yield gate


def test_a_build_runs_as_a_job_and_compiles_on_both_nodes(login: Login, gate: Gate) -> None:
    node = f"word=$(hostname); {gate.wait}"
    login.write(one=node, other=node)
    with login.begun("--jobs-at-once", 2, until=r"^job \d+ is submitted") as process:
        login.running(3)
        gate.close()
        stdout, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, stderr
    assert stdout == f"{login.image}\n"
    texts = ("/opt/one.txt", "/opt/other.txt")
    seen = lumicontainer("run", login.image, "--", "cat", *texts)
    assert set(seen.stdout.split()) == NODES
    assert login.left() == {login.image.name}
    assert "small.sif is up to date" in login.build().stderr


PASSWORD = "pass-of-mine"


def test_ctrl_c_cancels_all_jobs_and_slurm_never_gets_their_passwords(login: Login) -> None:
    login.write(one=ENDLESS)
    login.env["PIP_INDEX_URL"] = f"https://user:{PASSWORD}@localhost/simple"
    mirror = f"https://localhost/x=https://user:{PASSWORD}@localhost/y"
    words = ("--mirror", mirror, "--jobs-at-once", 1)
    with login.begun(*words, until="one: compile") as process:
        assert PASSWORD not in "".join(map(login.known_to_slurm, login.running(2)))
        (folder,) = (login.folder / "cache/jobs").iterdir()
        assert folder.stat().st_mode & 0o077 == 0
        # A job removes its command when it starts.
        wait_for(lambda: list(folder.rglob("command.sh")) == [])
        texts = [path.read_text() for path in folder.rglob("*") if path.is_file()]
        assert PASSWORD not in "".join(texts)
        process.send_signal(signal.SIGINT)
        ended(process, 130)
    login.assert_nothing_runs()
    assert login.left() == set()


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGHUP,), (signal.SIGINT, signal.SIGINT)],
    ids=["closed terminal", "ctrl-c twice"],
)
def test_a_login_that_ends_leaves_no_job(login: Login, signals: tuple[signal.Signals, ...]) -> None:
    login.write(one=ENDLESS)
    with login.begun(until="one: compile") as process:
        for number in signals:
            process.send_signal(number)
        ended(process, 130)
    assert login.jobs() == []
    assert login.left() == set()


def killed(login: Login, number: str) -> int:
    """Kill what a job runs, as a node that dies does; return how many processes that were."""
    marks = (f"SLURM_JOB_ID={number}\0".encode(), f"MARK={login.folder}\0".encode())
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (entry / "environ").read_bytes()
            if all(mark in environment for mark in marks):
                os.kill(int(entry.name), signal.SIGKILL)
                count += 1
    return count


def test_after_a_job_that_dies_the_next_build_continues(login: Login) -> None:
    login.write(other=ENDLESS)
    with login.begun("--jobs-at-once", 2, until=r"one: compile +\d") as process:
        wait_for(lambda: len(login.jobs()) == 2)
        number = min(login.jobs(), key=int)
        words = ["squeue", "--noheader", "--format=%N", "--jobs", number]
        # Another node would keep the draft for days, because its job may still write it.
        login.env["SBATCH_NODELIST"] = run(words, env=login.env).stdout.strip()
        killed(login, number)
        ended(process, 7, r"error: job \d+ failed\n +where: \S+/log\n +why: FAILED, reason ")
    assert login.jobs() == []
    assert [each for each in login.left() if each.startswith("lumi-build-small-")]
    login.write()
    login.assert_goes_on("first", "one(: compile)?")
    assert not [each for each in login.left() if each.startswith(".")]


def test_a_build_that_is_cancelled_ends_its_jobs_and_the_next_continues(login: Login) -> None:
    login.write(one=ENDLESS, other=ENDLESS)
    with login.begun("--jobs-at-once", 2, until="one: compile") as process:
        number, *_ = login.running(3)
        run(["scancel", number], env=login.env)
        why = rf"error: job {number} failed\n +where: \S+/log\n +why: CANCELLED\n"
        ended(process, 7, why, "hint: repeat the command: it continues")
    login.assert_nothing_runs()
    login.write()
    login.assert_goes_on("first")


def test_a_compile_job_that_somebody_cancels_costs_its_own_step(login: Login, gate: Gate) -> None:
    login.write(one=gate.wait, other=ENDLESS)
    with login.begun("--jobs-at-once", 2, until="one: compile") as process:
        (number,) = (each for each in login.running(3) if "/other-" in login.known_to_slurm(each))
        run(["scancel", number], env=login.env)
        assert any("waiting for the other compile jobs" in line for line in process.stderr)
        gate.close()
        ended(process, 7, f"error: job {number} failed", "why: CANCELLED")
    login.write(one=gate.wait)
    login.assert_goes_on("one: compile")


@contextmanager
def small_disk(login: Login, size: str) -> Iterator[Path]:
    """Give a node's work folder a size."""
    place = login.folder / "place"
    run([*as_root(), "mount", "-t", "tmpfs", "-o", f"size={size},{owned()}", "none", place])
    try:
        yield place
    finally:
        run([*as_root(), "umount", place])


def test_a_full_disk_and_a_dead_node_cost_their_steps_only(login: Login, gate: Gate) -> None:
    login.write(one=gate.wait)
    with login.begun("--jobs-at-once", 1, until="one: compile") as process:
        *_, first = login.running(2)
        wait_for(lambda: killed(login, first))
        gate.close()
        ended(process, 0)
    seen = lumicontainer("run", login.image, "--", "cat", "/opt/one.txt", "/opt/other.txt")
    assert seen.stdout == "hello\nhello\n"
    # The cache knows the sizes of all layers now, and the next build begins with little space.
    login.write(one="cat /dev/zero >/var/tmp/zeros")
    with small_disk(login, "700M") as place:
        done = login.build("--jobs-at-once", 1)
        assert done.returncode == 8, done.stderr
        assert "error: the compile job of 'one' failed (exit code 8)\n" in done.stderr
        assert re.search(rf"why: the temporary folder is full\n +where: {place}/", done.stderr)
    login.write()
    login.assert_goes_on("second")


def test_a_compile_job_that_fails_ends_the_build_with_its_error(login: Login) -> None:
    login.write(one="echo 'no such header' >&2; exit 4")
    done = login.build("--jobs-at-once", 2)
    failed = ("the compile job of 'one' failed", "the step 'one: compile' failed (exit code 4)")
    refused(done, *failed, "no such header", code=5)
    (log,) = re.findall(r"(?m)^ +where: (\S+/log)$", done.stderr)
    assert "no such header" in Path(log).read_text()
    assert login.jobs() == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--on", "nowhere"), 7, "invalid partition"),
        (("--time", "9d"), 7, "PartitionTimeLimit"),
        (("--jobs", 99), 7, "Requested node configuration is not available"),
        (("--output", "/dev/shm/x/small.sif"), 2, "the image's folder does not exist"),
    ],
    ids=["partition", "time", "cores", "output"],
)
def test_a_job_that_cannot_run_is_refused_before_it_waits(
    login: Login, words: tuple[object, ...], code: int, says: str
) -> None:
    refused(login.build(*words), says, code=code)
    assert login.jobs() == []


def test_a_build_that_compares_two_runs_as_a_job_though_the_image_is_there(login: Login) -> None:
    assert login.build().returncode == 0
    done = login.build("--check", "--jobs-at-once", 2)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^job \d+ is submitted", done.stderr)
    assert login.jobs() == []


def test_a_dry_run_prints_what_it_would_submit(login: Login) -> None:
    done = login.build("--dry-run")
    assert done.returncode == 0, done.stderr
    command = "would submit: sbatch --partition=standard-g --time=20 --cpus-per-task=4 --mem="
    assert command in done.stderr
    assert "would build" in done.stdout
    assert not (login.folder / "cache/jobs").exists()


@pytest.mark.parametrize(("hidden", "code"), [("images", 3), ("cache", 7)])
def test_a_folder_of_the_login_node_alone_is_reported(login: Login, hidden: str, code: int) -> None:
    images = login.folder / "images"
    images.mkdir()
    start = prepared("mount", f"mount -t tmpfs -o mode=700,{owned()} none {login.folder / hidden}")
    build = login.command("--output", images / "small.sif")
    command = (*start, sys.executable, "-m", "lumicontainer", *build)
    done = run(command, cwd=login.folder, env=login.env)
    refused(done, "that all nodes s", code=code)
    assert list(images.iterdir()) == []


def delay_jobs(login: Login) -> None:
    """Let the jobs of a place wait in the queue."""
    programs = login.folder / "place/bin"
    programs.mkdir()
    sbatch = programs / "sbatch"
    sbatch.write_text(f'#!/bin/sh\nexec {shutil.which("sbatch")} --begin=now+1hour "$@"\n')
    sbatch.chmod(0o755)
    login.env["PATH"] = f"{programs}:{os.environ['PATH']}"


@pytest.mark.parametrize("until", ["in the queue since", "one: compile"], ids=["waits", "runs"])
def test_the_next_command_removes_what_a_killed_one_left(login: Login, until: str) -> None:
    """Its job goes on, and nothing is removed before the end of that."""
    login.write(one=ENDLESS)
    waits = until.startswith("in the queue")
    words = ("--jobs-at-once", 1)
    login.env["TOKEN"] = PASSWORD
    if waits:
        delay_jobs(login)
    with login.begun(*words, until=until) as process:
        jobs = login.jobs() if waits else login.running(2)
        process.kill()
        process.communicate(timeout=SECONDS)
    (folder,) = (login.folder / "cache/jobs").iterdir()
    lumicontainer("cache", "prune", env=login.env, code=0)
    assert (folder / COMMAND).exists() == waits
    assert len(list(login.folder.glob(".small.sif.job-*"))) == waits
    succeeded(run(["scancel", *jobs], env=login.env))
    wait_for(lambda: login.jobs() == [])
    login.assert_nothing_runs()
    lumicontainer("cache", "prune", env=login.env, code=0)
    texts = [path.read_text() for path in login.folder.rglob("jobs/**/*") if path.is_file()]
    assert PASSWORD not in "".join(texts)
    assert login.left() == (set() if waits else {folder.name})
