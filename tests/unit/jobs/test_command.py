"""A job gets the command and the environment of the program that sends it."""

import os
from pathlib import Path

import pytest

from lumicontainer.jobs import command, follow, slurm
from lumicontainer.jobs.command import CommandJob, Resources
from lumicontainer.jobs.follow import Listener, SbatchOptions
from lumicontainer.verify import job as verify

from ..verify.test_results import check, job_of

pytestmark = pytest.mark.slow

# As with --export=NIL, a job has no variable of ours.
SBATCH = r"""#!/bin/bash
printf '%s\n' "$@" >"${0%/*}/words"
for word; do
    case $word in
    --test-only) exit ;;
    --output=*) log=${word#*=} ;;
    esac
done
env -i PATH="$PATH" bash "$word" &>"$log" &
echo 7
"""


@pytest.fixture
def one_node(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run batch scripts at once, on this host; return the folder of Slurm's programs."""
    folder = tmp_path_factory.mktemp("slurm")
    programs = {"sbatch": SBATCH, "squeue": "#!/bin/sh\necho RUNNING None\n"}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.usefixtures("one_node")
def test_variables_and_folders_that_are_not_utf_8_reach_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = os.fsdecode(b"J\xf6rg")
    monkeypatch.setenv("NAME", name)
    folder = tmp_path / name
    folder.mkdir()
    job = CommandJob(["printenv", "NAME"], folder, SbatchOptions(), Resources(1, 1 << 30))
    assert command.run(job, Listener(lambda _: None)) == 0
    assert (folder / command.RESULT).read_bytes() == b"J\xf6rg\n"


def reason_of_waiting(folder: Path) -> str:
    """Run a job that ends when the first reason is given why it waits; return that."""
    said, go = list[str](), folder / "go"

    def say(text: str) -> None:
        said.append(text)
        go.touch()

    words = ["sh", "-c", 'until [ -e "$0" ]; do sleep 0.1; done', str(go)]
    job = CommandJob(words, folder / "job", SbatchOptions(), Resources(1, 1 << 30))
    job.folder.mkdir()
    assert command.run(job, Listener(lambda _: None, say)) == 0
    return said[0]


@pytest.mark.usefixtures("one_node")
def test_a_node_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "silent_nodes", lambda _: ["nid005001"])
    reason = reason_of_waiting(tmp_path)
    assert reason.endswith("no answer of nid005001; Slurm ends the job if this lasts")


def test_a_job_that_cannot_be_cancelled_is_named(one_node: Path, tmp_path: Path) -> None:
    (one_node / "scancel").write_text("#!/bin/sh\nexit 1\n")
    (one_node / "scancel").chmod(0o755)
    lines = list[str]()

    def interrupt(line: str) -> None:
        lines.append(line)
        if "submitted" in line:
            raise KeyboardInterrupt

    job = CommandJob(["true"], tmp_path, SbatchOptions(), Resources(1, 1 << 30))
    with pytest.raises(KeyboardInterrupt):
        command.run(job, Listener(interrupt))
    assert lines[-1] == "the job may still run; end it with: scancel 7"


@pytest.mark.parametrize("answer", ["echo '<html>503'", "echo timed out >&2; exit 1", "exit 0"])
def test_a_job_goes_on_while_slurm_does_not_tell_its_state(
    one_node: Path, tmp_path: Path, answer: str
) -> None:
    for name in ("squeue", "scontrol"):
        (one_node / name).write_text(f"#!/bin/sh\n{answer}\n")
        (one_node / name).chmod(0o755)
    reason = reason_of_waiting(tmp_path)
    assert reason == "job 7: Slurm does not tell its state; asking again"


def test_a_job_that_verifies_gets_the_variables_and_leaves_them_nowhere(
    one_node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one_node / "srun").write_text('#!/bin/sh\necho "TOKEN is $TOKEN" >&2\n')
    (one_node / "srun").chmod(0o755)
    monkeypatch.setenv("TOKEN", "it's mine")
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    lines = list[str]()
    collected = verify.run(
        job_of([check("a/b")], "workstation", Path("x.sif")), Listener(lines.append)
    )
    assert collected.problem is not None, "srun wrote no report"
    assert "TOKEN is it's mine" in lines
    (folder,) = tmp_path.glob("cache/jobs/*")
    (folder / follow.LOG).unlink()
    assert not [each for each in folder.iterdir() if "mine" in each.read_text()]
    assert not [word for word in (one_node / "words").read_text().split() if "mine" in word]
    assert "--export=NIL" in (one_node / "words").read_text().split()
