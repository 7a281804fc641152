"""The folder of a job is removed when nobody needs it, and not before."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import JobError
from lumicontainer.jobs import follow, variables
from lumicontainer.jobs.folders import FOLDERS, job_folder, mark_beside, partial_image, reclaim
from lumicontainer.jobs.follow import Listener
from lumicontainer.verify import job as verify

from ..cache.test_store import LATER
from ..verify.test_results import check, job_of

pytestmark = pytest.mark.slow

COMMAND = follow.COMMAND
SECRET = (COMMAND, variables.FILE)
SQUEUE = """#!/bin/sh
for each; do
    case $each in --name=*) cat "$0.jobs/${each#--name=}" 2>/dev/null ;; esac
done
exit 0
"""
SCONTROL = "#!/bin/sh\necho 'ClusterName             = one'"
SBATCH = "#!/bin/sh\ncase $* in *--test-only*) exit ;; esac\nkill -KILL $PPID"
"""Kill the command that sends a job."""
DEAD = "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
Queue = Callable[[str], None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    folder = tmp_path / "bin"
    (folder / "squeue.jobs").mkdir(parents=True)

    def write(**texts: str) -> None:
        for name, text in texts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    write(squeue=SQUEUE, scontrol=SCONTROL)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return write


@pytest.fixture
def queue(programs: Callable[..., None], tmp_path: Path) -> Queue:
    """Return what gives a job of that name to Slurm."""

    def submit(name: str) -> None:
        (tmp_path / "bin/squeue.jobs" / name).write_text("7\n")

    return submit


def job_that_ends_well(parent: Path) -> None:
    with job_folder(parent, "small-") as folder:
        (folder / follow.ENDED).write_text("0\n")


def leave_old(parent: Path, count: int) -> None:
    for number in range(count):
        old = parent / f"old-{number}"
        old.mkdir()
        os.utime(old, (0, 0))


@pytest.mark.usefixtures("queue")
def test_jobs_that_begin_at_once_remove_the_same_old_folders(tmp_path: Path) -> None:
    parent = tmp_path / "jobs"
    parent.mkdir()
    leave_old(parent, 300)
    together = threading.Barrier(8)

    def begin(_: int) -> None:
        together.wait(120)
        job_that_ends_well(parent)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(begin, range(8))) == [None] * 8
    assert list(parent.iterdir()) == []


@pytest.mark.usefixtures("queue")
def test_a_job_that_was_given_up_writes_no_image(tmp_path: Path) -> None:
    output = tmp_path / "small.sif"
    with ExitStack() as lost_node:
        with job_folder(tmp_path / "jobs", "small-") as folder, mark_beside(output, folder):
            partial = lost_node.enter_context(partial_image(output, folder))
        with pytest.raises(FileNotFoundError):
            partial.rename(output)
    with pytest.raises(JobError, match="has ended"), partial_image(output, folder):
        pytest.fail("an image begins")
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []


def send_and_die(parent: Path, output: Path, files: dict[str, str]) -> None:
    with job_folder(parent, "small-") as folder, mark_beside(output, folder):
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        os.kill(os.getpid(), signal.SIGKILL)


def killed(tmp_path: Path, **files: str) -> Path:
    """Return the folder that a killed command leaves, with these files in it."""
    parent, output = tmp_path / "jobs", tmp_path / "images/small.sif"
    output.parent.mkdir()
    names = {name.replace("_", "."): text for name, text in files.items()}
    secret = dict.fromkeys([*SECRET, f"one-x/{COMMAND}"], "export TOKEN=secret")
    texts = {**secret, **names}
    sender = multiprocessing.get_context("fork").Process(
        target=send_and_die, args=(parent, output, texts)
    )
    sender.start()
    sender.join()
    assert sender.exitcode == -signal.SIGKILL
    (folder,) = parent.iterdir()
    return folder


def test_a_killed_command_that_verifies_leaves_nothing(
    tmp_path: Path, programs: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(sbatch=SBATCH)
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.chdir(tmp_path)
    arguments = (job_of([check("a/b")], "workstation", Path("x.sif")), Listener(lambda _: None))
    sender = multiprocessing.get_context("fork").Process(target=verify.run, args=arguments)
    sender.start()
    sender.join()
    assert sender.exitcode == -signal.SIGKILL
    (private,) = tmp_path.rglob(variables.FILE)
    assert private.stat().st_mode & 0o777 == 0o600
    reclaim(tmp_path / "cache" / FOLDERS)
    assert not private.parent.exists()


def make_old(folder: Path, moment: float = 0) -> None:
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (moment, moment))


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("ended", [{}, {"log": "text\n", "ended": "0\n"}], ids=["early", "done"])
def test_a_killed_command_leaves_nothing(tmp_path: Path, ended: dict[str, str]) -> None:
    folder = killed(tmp_path, **ended)
    reclaim(folder.parent)
    assert list(folder.parent.iterdir()) == []
    assert list((tmp_path / "images").iterdir()) == []


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("moment", [0, LATER])
@pytest.mark.parametrize("ended", [{}, {"ended": "5\n"}], ids=["cancelled", "failed"])
def test_of_a_killed_command_whose_job_failed_the_log_stays_for_a_week(
    tmp_path: Path, ended: dict[str, str], moment: float
) -> None:
    folder = killed(tmp_path, log="text\n", **ended)
    reclaim(folder.parent)
    assert (folder / "log").read_text() == "text\n"
    assert [each for name in SECRET for each in folder.rglob(name)] == []
    assert list((tmp_path / "images").iterdir()) == []
    make_old(folder, moment)
    reclaim(folder.parent)
    assert not folder.exists()


def test_the_folder_of_a_job_in_the_queue_stays_however_old(tmp_path: Path, queue: Queue) -> None:
    folder = killed(tmp_path)
    queue(folder.name)
    make_old(folder)
    reclaim(folder.parent)
    assert (folder / COMMAND).exists()
    assert len(list((tmp_path / "images").iterdir())) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"squeue": DEAD},
        {"scontrol": DEAD},
        {"scontrol": SCONTROL.replace("one", "other")},
    ],
    ids=["no answer", "no controller", "another cluster"],
)
def test_a_folder_stays_if_its_slurm_cannot_be_asked(
    tmp_path: Path, programs: Callable[..., None], changed: dict[str, str]
) -> None:
    folder = killed(tmp_path)
    make_old(folder)
    programs(**changed)
    reclaim(folder.parent)
    assert (folder / COMMAND).exists()


@pytest.mark.usefixtures("queue")
def test_a_job_that_still_ends_keeps_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = os.rmdir

    def write_late(*words: Any, **names: Any) -> None:
        with suppress(FileNotFoundError):
            (folder / follow.ENDED).write_text("143\n")
        remove(*words, **names)

    with pytest.raises(KeyboardInterrupt), job_folder(tmp_path, "small-") as folder:
        monkeypatch.setattr(os, "rmdir", write_late)
        raise KeyboardInterrupt
    assert list(tmp_path.glob("small-*")) == []


@pytest.mark.usefixtures("queue")
def test_the_folder_of_a_command_that_lives_stays(tmp_path: Path) -> None:
    with job_folder(tmp_path / "jobs", "small-") as folder:
        (folder / COMMAND).touch()
        make_old(folder)
        reclaim(folder.parent)
        assert (folder / COMMAND).exists()
        (folder / follow.ENDED).write_text("0\n")


@pytest.mark.usefixtures("queue")
def test_a_command_on_another_host_is_dead_once_it_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock may not reach this host."""
    folder = killed(tmp_path)
    here = os.uname()
    other = os.uname_result((here.sysname, "other", here.release, here.version, here.machine))
    monkeypatch.setattr(os, "uname", lambda: other)
    reclaim(folder.parent)
    assert folder.exists()
    make_old(folder)
    reclaim(folder.parent)
    assert not folder.exists()


@pytest.mark.usefixtures("queue")
def test_the_kept_folder_of_a_failed_job_has_no_environment(tmp_path: Path) -> None:
    with pytest.raises(JobError), job_folder(tmp_path, "small-") as folder:
        (folder / "one-x").mkdir()
        (folder / "one-x" / COMMAND).write_text("export TOKEN=secret")
        (folder / follow.LOG).touch()
        raise JobError()
    assert {path.name for path in folder.rglob("*")} == {"one-x", follow.LOG}
