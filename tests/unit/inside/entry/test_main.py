"""lumi-entry becomes the program: nothing of a rank is lost or added on the way."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import lumicontainer
from lumicontainer import inside

from .. import seen
from ..conftest import AWAIT_SIGNAL, PATH, Done, Entry, Env, run

pytestmark = pytest.mark.slow

PRINT_ARGUMENTS = "import sys; print(ascii(sys.argv[1:]))"
ARGUMENTS = [
    "two words",
    "it's",
    '"quoted"',
    "$(id)",
    "`id`",
    "",
    "*",
    "a\nb",
    "--help",
    "--",
    "%x",
]


def script(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "program",
    [["train.py"], ["-m", "train"], ["--", "python3", "-c", PRINT_ARGUMENTS]],
    ids=["script", "module", "command"],
)
def test_the_arguments_arrive_as_they_are(entry: Entry, tmp_path: Path, program: list[str]) -> None:
    script(tmp_path, PRINT_ARGUMENTS)
    done = entry(*program, *ARGUMENTS)
    assert (done.stdout, done.stderr) == (ascii(ARGUMENTS) + "\n", "")


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_bytes_that_are_no_text_arrive_as_they_are(entry: Entry, locale: Env) -> None:
    done = entry("--", "printf", "%s|", b"a\xff\xc3", "ä", env=locale, errors="surrogateescape")
    assert done.stdout == "a\udcff\udcc3|ä|"


def test_a_command_that_is_missing_on_another_node_is_reported_by_that_node(entry: Entry) -> None:
    env = {**seen.srun(3), "SLURM_LOCALID": "0"}
    done = entry("--", "/tmp/not-staged-here/run.sh", env=env)
    assert done.returncode == 127
    assert done.stderr.startswith("error: command not found: '/tmp/not-staged-here/run.sh' (on ")
    assert done.stderr.count("\n") == 1
    assert entry("--", "nowhere-at-all", env=env).stderr == ""


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("words", ["--version", "--print-env"])
def test_what_cannot_be_printed_is_reported(launcher: Path, words: str, where: str) -> None:
    done = run("sh", "-c", f'exec "$0" {words} {where}', launcher)
    assert done.returncode == 3
    assert done.stderr.startswith("error: cannot write to stdout: ")
    assert done.stderr.count("\n") == 4


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize("words", ["--preflight", "--launcher direct"], ids=["notes", "warns"])
def test_the_program_starts_though_its_messages_are_lost(
    launcher: Path, words: str, where: str
) -> None:
    command = f'exec "$0" {words} -- echo started {where}'
    warned = {"VIRTUAL_ENV": "/nowhere", "PATH": f"/nowhere/bin:{PATH}"}
    done = run("sh", "-c", command, launcher, env=warned)
    assert (done.returncode, done.stdout) == (0, "started\n")


def test_its_own_name_may_stand_before_what_an_image_runs(entry: Entry) -> None:
    assert entry("lumi-entry", "--", "echo", "once").stdout == "once\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -SEGV $$", -signal.SIGSEGV)],
)
def test_the_exit_code_passes(entry: Entry, command: str, code: int) -> None:
    assert entry("--", "sh", "-c", command).returncode == code


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_reaches_the_same_process(launcher: Path, sent: signal.Signals) -> None:
    with subprocess.Popen(
        [launcher, "--", "python3", "-c", AWAIT_SIGNAL, str(sent.value)],
        env={"PATH": PATH},
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert int(program.stdout.readline()) == program.pid
        program.send_signal(sent)
        assert program.wait(120) == 5


def _signals(*command: object) -> list[str]:
    lines = run(*command, "cat", "/proc/self/status").stdout.splitlines()
    # Without SigQ, which counts the signals that wait for any process of this user.
    masks = [line for line in lines if line.startswith(("SigPnd", "SigBlk", "SigIgn", "SigCgt"))]
    assert len(masks) == 4
    return masks


def test_the_program_ignores_and_blocks_the_signals_that_it_would_without(launcher: Path) -> None:
    assert _signals(launcher, "--") == _signals("/usr/bin/env")
    ignoring = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
    assert _signals(*ignoring, launcher, "--") == _signals(*ignoring)


def test_an_open_file_of_the_launcher_stays_open(entry: Entry, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as stream:
        number = stream.fileno()
        entry("--", "bash", "-c", f"echo here >&{number}", pass_fds=[number])
    assert (tmp_path / "open").read_text() == "here\n"


@pytest.mark.parametrize("env", [{}, {"LC_CTYPE": "C.UTF-8"}, {"PYTHONPATH": "/x", "HOME": "/y"}])
def test_the_environment_gains_what_was_decided_and_nothing_else(entry: Entry, env: Env) -> None:
    done = entry("--", "env", "-0", env={**env, **seen.srun_pmi2(3)})
    got = dict(item.split("=", 1) for item in done.stdout.split("\0") if item)
    own = {"LUMI_ENTRY_SET", "LUMI_ENTRY_PROCESS"}
    assert {k: v for k, v in got.items() if k not in own} == {
        "PATH": PATH,
        **env,
        **seen.srun_pmi2(3),
        "RANK": "3",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "nid005001",
        "MASTER_PORT": "10001",
        "PYTHONNOUSERSITE": "1",
    }


def test_a_lumi_entry_within_another_decides_for_itself(entry: Entry, launcher: Path) -> None:
    changes = [f"{name}={value}" for name, value in seen.mpiexec(1).items()]
    inner = (launcher, "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    done = entry("--", "env", *changes, *inner)
    assert (done.stdout, done.stderr) == ("1 of 2\n", "")


def test_it_runs_anywhere_and_leaves_nothing(entry: Entry, launcher: Path, tmp_path: Path) -> None:
    def list_files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in launcher.parents[3].rglob("*")}

    before = list_files()
    assert entry("--", "true", cwd=Path("/")).returncode == 0
    assert entry("--print-env", env={"HOME": "/nonexistent"}).returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert list_files() == before


def test_it_imports_nothing_of_the_folder_or_the_user_s_path(entry: Entry, tmp_path: Path) -> None:
    for name in ("os.py", "json.py", "lumi_inside.py", "sitecustomize.py"):
        script(tmp_path, "raise SystemExit(99)", name)
    done = entry("--print-env", "--json", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def from_a_removed_folder(launcher: Path, folder: Path, *words: object, env: Env) -> Done:
    """Run lumi-entry in a folder below ``folder`` that is removed before it starts."""
    gone = folder / "gone"
    gone.mkdir()
    return run("sh", "-c", 'rmdir "$PWD"; exec "$0" "$@"', launcher, *words, cwd=gone, env=env)


@pytest.mark.parametrize("program", [("--", "echo", "here"), ("{}/x.py",), ("-m", "x")])
@pytest.mark.parametrize("venv", [{}, {"VIRTUAL_ENV": "/of-the-host"}])
def test_it_starts_in_a_folder_that_is_gone(
    launcher: Path, tmp_path: Path, program: tuple[str, ...], venv: Env
) -> None:
    script(tmp_path, "print('here')", "x.py")
    words = (word.format(tmp_path) for word in program)
    env = {"PYTHONPATH": str(tmp_path), **venv}
    done = from_a_removed_folder(launcher, tmp_path, *words, env=env)
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("x.py",), 2),
        (("--log-dir", "logs", "--", "true"), 3),
        (("--profile", "all", "--", "true"), 3),
        (("--profile", "all", "--log-dir", "logs", "--", "true"), 3),
    ],
)
def test_what_needs_the_folder_that_is_gone_is_refused(
    launcher: Path, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    Path(script(tmp_path, "#!/bin/sh\n", "rocprofv3")).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{PATH}"}
    done = from_a_removed_folder(launcher, tmp_path, *words, env=env)
    assert done.returncode == code, done.stderr
    assert "a folder that was removed" in done.stderr


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ([], {}),
        (["trian.py"], {}),
        (["--launch", "x.py"], {}),
        (["--", "no-such-command"], {}),
        (["--launcher", "torchrun", "--", "true"], {}),
        (["--", "true"], {"WORLD_SIZE": "8"}),
        (["--", "true"], {"SLURM_PROCID": "x"}),
        (["--", "true"], {"SLURM_LOCALID": ""}),
        (["--", "true"], {"SLURM_STEP_TASKS_PER_NODE": "3,1(x"}),
    ],
)
def test_a_fault_of_all_ranks_is_shown_by_one(entry: Entry, words: list[str], change: Env) -> None:
    done = [entry(*words, env={**seen.srun(rank), **change}) for rank in range(4)]
    assert len({one.returncode for one in done}) == 1
    assert done[0].returncode in (2, 127)
    (printed,) = (one.stderr for one in done if one.stderr)
    assert "hint: " in printed


def test_a_rank_beyond_the_last_one_is_reported_though_rank_0_sees_no_fault(entry: Entry) -> None:
    env = {"WORLD_SIZE": "4", "LOCAL_RANK": "2", "MASTER_ADDR": "n1"}
    done = entry("--", "true", env={**env, "RANK": "6"})
    assert done.returncode == 2
    assert done.stderr.startswith("error: RANK=6 is not below WORLD_SIZE=4\n")


def test_a_node_s_fault_is_reported_by_its_first_rank_too(entry: Entry, tmp_path: Path) -> None:
    done = [entry("/no/such/train.py", env=seen.srun(rank)) for rank in range(4)]
    assert [one.returncode for one in done] == [2, 2, 2, 2]
    assert [one.stderr.count("\n") for one in done] == [4, 0, 0, 1]
    message = "error: script not found: '/no/such/train.py'"
    lines = done[0].stderr.splitlines()
    assert lines[0] == message
    assert lines[1] == f"  where: {tmp_path}"
    assert [line.split(":")[0].strip() for line in lines[2:]] == ["why", "hint"]
    assert done[3].stderr == f"{message} (on {os.uname().nodename})\n"


def test_what_cannot_be_run_exits_as_in_a_shell(entry: Entry, tmp_path: Path) -> None:
    plain = script(tmp_path, "echo\n", "plain")
    orphan = script(tmp_path, "#!/no/such/interpreter\n", "orphan")
    Path(orphan).chmod(0o755)
    for name in ("no-such-command", "./no-such-command", plain, orphan, str(tmp_path), ""):
        shell = run("bash", "-c", '"$0"', name, cwd=tmp_path)
        done = entry("--", name)
        assert done.returncode == shell.returncode in (126, 127), name
        assert done.stderr.startswith(("error: command not found: ", "error: cannot run "))
        assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "no program given"),
        (["--"], "no program given"),
        (["-m"], "no program given"),
        (["--launch"], "unknown option '--launch'"),
        (["-u", "train.py"], "unknown option '-u'"),
        (["--json", "train.py"], "--json needs --print-env"),
    ],
)
def test_a_wrong_command_line_is_refused(entry: Entry, words: list[str], what: str) -> None:
    done = entry(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {what}\n")
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("python3 x.py --lr 1", "lumi-entry x.py --lr 1"),
        ("python3 -u x.py", "lumi-entry -- python3 -u x.py"),
        ("python -m app", "lumi-entry -m app"),
        ("torchrun --nproc-per-node=4 x.py", "lumi-entry --launcher torchrun --nproc 4 x.py"),
        (
            "accelerate launch --num_processes 2 x.py --lr 1",
            "lumi-entry --launcher accelerate --nproc 2 x.py --lr 1",
        ),
        ("torchrun -m app --lr 1", "lumi-entry --launcher torchrun --nproc N -m app --lr 1"),
        (
            "deepspeed --num_gpus 2 --module app x.py",
            "lumi-entry --launcher deepspeed --nproc 2 -m app x.py",
        ),
        ("srun -m block python3 -m app", "write lumi-entry behind it: srun … lumi-entry -m app"),
        ("mpirun -n 2 x.py", "write lumi-entry behind it: mpirun … lumi-entry x.py"),
        ("sh -c true", "lumi-entry -- sh -c true"),
        ("no-such-program", "use its path in the container"),
        ("--nproc-per-node 2 x.py", "write --launcher torchrun --nproc 2"),
        ("--nproc_per_node gpu x.py", "write --launcher torchrun --nproc N\n"),
        ("--nproc_per_node=2 x.py", "write --launcher torchrun --nproc 2"),
        ("--nnodes 2 x.py", "leave it out: srun -N starts the nodes"),
        ("--master-port 1 x.py", "leave it out: lumi-entry sets it"),
        ("--mixed_precision bf16 x.py", "write --launcher-args '--mixed_precision bf16'"),
        ("--lancher torchrun x.py", "did you mean --launcher?"),
    ],
)
def test_a_habit_of_other_launchers_gets_its_hint(entry: Entry, words: str, hint: str) -> None:
    done = entry(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert f"\n   hint: {hint}" in done.stderr


def test_print_env_shows_every_variable_and_starts_nothing(entry: Entry, tmp_path: Path) -> None:
    name = script(tmp_path, "open('started', 'w')")
    done = entry("--print-env", name, env={**seen.srun(3), "MASTER_PORT": "1234"})
    assert done.returncode == 0
    first, *lines = done.stdout.splitlines()
    assert first == "launcher: slurm (srun, step 1.0)"
    rows = [line.split(maxsplit=2) for line in lines]
    assert ["RANK=3", "slurm", "SLURM_PROCID"] in rows
    assert ["MASTER_PORT=1234", "user", "set already"] in rows
    assert not (tmp_path / "started").exists()


def test_print_env_as_json_is_one_line_with_what_the_program_then_gets(entry: Entry) -> None:
    env = {**seen.mpiexec(1), "MASTER_ADDR": "näher"}
    done = entry("--print-env", "--json", env=env)
    assert done.stdout.count("\n") == 1
    record = json.loads(done.stdout)
    assert record["launcher"] == "mpi"
    row = {"name": "RANK", "value": "1", "origin": "mpi", "why": "PMI_RANK"}
    assert row in record["variables"]
    got = dict(line.split("=", 1) for line in entry("--", "env", env=env).stdout.splitlines())
    assert all(got.get(one["name"]) == one["value"] for one in record["variables"])


def test_a_warning_is_one_line_and_the_program_starts(entry: Entry) -> None:
    done = entry("--", "sh", "-c", "echo $RANK", env={**seen.srun(1), "RANK": "0"})
    assert done.stdout == "1\n"
    assert done.stderr.startswith("warning: RANK=0, set outside the ranks, is not used: ")
    assert done.stderr.count("\n") == 1


def test_help_and_version_are_results(entry: Entry) -> None:
    assert entry("--help").stdout.startswith("usage: lumi-entry ")
    assert entry("--version").stdout == f"lumi-entry {inside.__version__}\n"
    assert inside.__version__ == lumicontainer.__version__


def test_output_that_nobody_reads_ends_it_quietly(launcher: Path) -> None:
    done = run("bash", "-c", '"$0" --help | true; echo "${PIPESTATUS[0]}"', launcher)
    assert done.stdout.strip() in ("0", str(128 + signal.SIGPIPE))
    assert done.stderr == ""
