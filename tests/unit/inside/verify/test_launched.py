"""The tasks of a step run lumi-verify: they meet, and one of them reports all that fails.

They are started here as srun starts them, with its variables; Slurm itself is not there.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.verify import process
from lumicontainer.inside.verify.launched import layout

from .. import seen
from .verifying import ABOVE, HANG, Image, Ran, awaited

pytestmark = pytest.mark.slow

SHOW = "import os; print(os.environ.get('RANK'), os.environ.get('SLURM_PROCID'))\n"
RANK = ABOVE + "import sys\nrank = int(os.environ['RANK'])\n"
ALL = {"runs": "ranks"}
NOWHERE = {"HOME": "/proc", "before": ("env", "-C", "/proc")}


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def reports(tasks: list[subprocess.Popen[str]]) -> Ran:
    """Return what rank 0 said; the others have to be silent, and be gone."""
    ran = Ran(tasks[0])
    for each in tasks[1:]:
        silent = Ran(each)
        assert (silent.stdout, silent.stderr) == ("", "")
    return ran


def test_once_is_rank_0_node_the_first_of_each_and_ranks_are_all(image: Image) -> None:
    for runs in ("once", "node", "ranks"):
        image.add(runs, SHOW, runs=runs)
    ran = reports(image.tasks("--json", "-"))
    assert ran.code == 0, ran.stderr
    assert [row["rank"] for row in ran.check("node")["ranks"]] == [0, 2]
    places = [(row["rank"], row["host"]) for row in ran.check("ranks")["ranks"]]
    assert places == [(0, "localhost"), (1, "localhost"), (2, "nid2"), (3, "nid2")]
    assert ran.check("once")["ranks"] == []
    assert ran.check("once")["output"] == "None None\n"
    assert ran.check("ranks")["output"] == "0 0\n"
    assert (ran.report["place"]["nodes"], ran.report["place"]["ranks"]) == (2, 4)


@pytest.mark.parametrize("runs", ["once", "node", "ranks"])
def test_every_check_may_start_lumi_entry_below_slurm_s_daemon(image: Image, runs: str) -> None:
    entry = image.home / "bin/lumi-entry"
    image.add("entry", f"#!/bin/bash\nexec {entry} --print-env\n", runs=runs)
    daemon = 'exec -a "slurmstepd: [4711.0]" bash -c \'"$@"; exit $?\' bash "$@"'
    ran = reports(image.tasks("--json", "-", before=["bash", "-c", daemon, "bash"]))
    assert ran.states == {"entry": "passed"}, ran.stderr
    size = "4" if runs == "ranks" else "1"
    assert f"WORLD_SIZE={size}" in ran.check("entry")["output"].replace(" ", "")


def test_a_rank_that_never_comes_is_named_and_the_rest_go_on(image: Image) -> None:
    for runs in ("once", "node", "ranks"):
        image.add(runs, SHOW, runs=runs)
    ran = reports(image.tasks("--json", "-", "--wait", "10", absent=[3]))
    states = {"once": "passed", "node": "passed", "ranks": "error", "lumi-verify/ranks": "error"}
    assert ran.states == states
    assert "without rank 3 on nid2: it did not join" in ran.check("ranks")["reason"]
    (hint,) = (each["hint"] for each in ran.report["checks"] if each["name"] == "lumi-verify/ranks")
    assert "; ranks with --contain see no folder of each other: export LUMI_VERIFY_SECRET=" in hint
    assert not list(image.root.glob(".lumi-verify*")), "its key stays"


def test_a_node_without_ranks_is_reported_even_if_no_check_needs_it(image: Image) -> None:
    image.add("node", SHOW, runs="node")
    image.add("once", SHOW)
    ran = reports(image.tasks("--json", "-", "--wait", "10", absent=[2, 3]))
    states = {"node": "error", "once": "passed", "lumi-verify/ranks": "error"}
    assert (ran.code, ran.states) == (1, states)
    assert [row["host"] for row in ran.check("node")["ranks"]] == ["localhost", "nid2", "nid2"]
    assert "rank 2 on nid2, rank 3 on nid2: " in ran.report["checks"][-1]["reason"]
    assert ran.report["counts"]["error"] == 2
    assert "lumi-verify/ranks" in ran.stderr


def test_a_rank_that_dies_is_named_and_the_rest_go_on(image: Image) -> None:
    image.wait_shortly("AFTER")
    image.add("dies", RANK + "if rank == 1: os.kill(above, 9)\ntime.sleep(1000)\n", **ALL)
    image.add("later", SHOW, **ALL)
    image.add("node", SHOW, runs="node")
    first, dies, *others = image.tasks("--json", "-")
    dies.communicate()
    assert dies.returncode == -9
    ran = reports([first, *others])
    states = {"dies": "error", "later": "error", "node": "passed", "lumi-verify/ranks": "error"}
    assert ran.states == states
    why = "on rank 1 (localhost) of 4: lumi-verify or its node has ended"
    assert why in ran.check("dies")["reason"]
    assert "without rank 1 on localhost" in ran.check("later")["reason"]
    assert image.left() == []


def test_a_hang_of_one_rank_gives_the_stacks_of_all_and_later_checks_run(image: Image) -> None:
    image.end_only_what_hangs(threads=4)
    hangs = f"import threading\ndef stuck(): {HANG}\nstuck() if rank == 2 else {HANG}\n"
    image.add("hangs", RANK + hangs, **ALL, timeout_seconds=1)
    image.add("later", SHOW, **ALL)
    ran = reports(image.tasks("--json", "-"))
    assert ran.states == {"hangs": "failed", "later": "passed"}
    assert ran.check("hangs")["output"].count("most recent call first") == 4
    assert "rank 2 is in: " in ran.check("hangs")["reason"]
    assert image.left() == []


def test_when_a_rank_fails_the_others_end_soon(image: Image) -> None:
    image.wait_shortly("AFTER")
    image.add("fails", RANK + "time.sleep(1000) if rank != 3 else sys.exit('broken GPU')", **ALL)
    ran = reports(image.tasks("--json", "-"))
    assert "on rank 3 (nid2) of 4: broken GPU" in ran.check("fails")["reason"]
    rows = ran.check("fails")["ranks"]
    assert [row["halted"] for row in rows] == [True, True, True, False]
    assert {row["reason"] for row in rows[:3]} == {"ended 2 s after rank 3 did not pass"}


def test_an_answer_that_is_late_is_named_and_the_rest_go_on(image: Image) -> None:
    """lumi-verify of rank 1 is stopped as on a node that swaps, until both checks have a result."""
    image.wait_shortly("LATE")
    image.end_only_what_hangs()
    image.add("stops", RANK + "if rank == 1: os.kill(above, 19)\n", **ALL, timeout_seconds=5)
    image.add("later", SHOW, **ALL)
    tasks = image.tasks("--json", "-")
    assert tasks[0].stderr is not None
    said = ""
    while "[2/2] error    t/later" not in said:
        said += (line := tasks[0].stderr.readline())
        assert line, said
    assert "[1/2] error    t/stops" in said
    tasks[1].send_signal(signal.SIGCONT)
    ran = reports(tasks)
    assert "no answer within" in ran.check("stops")["reason"]
    assert "it has not answered to an earlier check" in ran.check("later")["reason"]


@pytest.mark.parametrize("whom", ["every task", "rank 0 alone"])
def test_interrupted_they_all_end_and_what_was_done_is_reported(image: Image, whom: str) -> None:
    here = image.root / "here"
    here.mkdir()
    image.add("done", SHOW)
    image.add("hangs", RANK + f"open(f'{here}/{{rank}}', 'w')\ntime.sleep(1000)\n", **ALL)
    tasks = image.tasks("--json", "-")
    awaited(lambda: len(list(here.iterdir())) == 4)
    begun = time.monotonic()
    for each in tasks if whom == "every task" else tasks[:1]:
        each.terminate()
    ran = Ran(tasks[0])
    assert time.monotonic() - begun < 60
    assert (ran.code, ran.states) == (130, {"done": "passed"})
    for each in tasks[1:]:
        each.communicate()
    assert image.left() == []


def test_when_rank_0_is_killed_the_others_end_and_one_of_each_node_says_why(image: Image) -> None:
    image.add("hangs", RANK + "if rank == 0: os.kill(above, 9)\ntime.sleep(1000)\n", **ALL)
    _, *others = map(Ran, image.tasks())
    assert [each.code for each in others] == [130] * 3
    assert [each.stderr.count("error: rank 0") for each in others] == [0, 1, 0]
    assert image.left() == []


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ({}, "did not find rank 0 within 2 s"),
        # Ranks of other tests listen at the ports of their step.
        (
            {"LUMI_VERIFY_SECRET": "s" * 32, "SLURM_JOB_ID": str(os.getpid())},
            r"why: port \d+: Connection refused",
        ),
    ],
)
def test_a_rank_that_does_not_find_rank_0_says_where_it_looked(
    image: Image, secret: dict[str, str], why: str
) -> None:
    image.add("one", SHOW)
    ran = [Ran(each) for each in image.tasks("--wait", "2", absent=[0], **secret)]
    assert [each.code for each in ran] == [3] * 3
    assert re.search(why, ran[1].stderr), ran[1].stderr
    assert ran[0].stderr == ran[2].stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-k", "nothing"), 2, "check 'nothing' not found"),
        (("--json", "/nowhere/x.json"), 2, "cannot write '/nowhere/x.json'"),
        (("--list",), 0, ""),
    ],
)
def test_what_is_wrong_is_reported_once(
    image: Image, words: tuple[str, ...], code: int, message: str
) -> None:
    image.add("one", SHOW)
    tasks = image.tasks(*words)
    ran = reports(tasks)
    assert ran.code == max(each.returncode for each in tasks) == code
    assert message in ran.stderr


def test_one_check_of_mpi_runs_in_a_step_and_the_others_say_how(image: Image) -> None:
    for name in ("first", "second"):
        image.add(name, SHOW, **ALL, needs={"tasks": 2, "mpi": True})
    ran = reports(image.tasks("--json", "-", PMI_RANK_IS_THERE="", PMI_JOBID="x"))
    assert ran.states == {"first": "passed", "second": "skipped"}
    assert "lumi-verify -k t/second" in ran.check("second")["reason"]
    required = reports(image.tasks("--json", "-", "--require", "mpi", PMI_JOBID="x"))
    assert required.states == {"first": "passed", "second": "failed"}


@pytest.mark.parametrize(
    ("tasks", "nodes", "distribution", "expected"),
    [
        ("2(x2)", "nid[1-2]", {}, ["nid1", "nid1", "nid2", "nid2"]),
        ("3,1", "nid[1-2]", {"SLURM_DISTRIBUTION": "block:cyclic"}, ["nid1"] * 3 + ["nid2"]),
        ("2(x2)", "nid[1-2]", {"SLURM_DISTRIBUTION": "cyclic"}, []),
        ("2(x3)", "nid[1-2]", {}, []),
        ("2(x", "nid[1-2]", {}, []),
        ("2(x2)", "nid[1-", {}, []),
    ],
)
def test_the_node_of_a_rank_follows_from_slurm_s_variables(
    tasks: str, nodes: str, distribution: dict[str, str], expected: list[str]
) -> None:
    env = {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_STEP_NODELIST": nodes, **distribution}
    assert layout(env) == expected


def test_ranks_that_share_no_folder_are_refused_with_a_hint(image: Image) -> None:
    image.add("one", SHOW)
    every = [Ran(each) for each in image.tasks("--wait", "2", **NOWHERE)]
    assert [each.code for each in every] == [3] * 4
    for ran, why in ((every[0], "cannot share a key"), (every[2], "no key of rank 0 in /proc")):
        assert why in ran.stderr
        assert "export LUMI_VERIFY_SECRET=$(od " in ran.stderr


def test_a_task_alone_needs_nobody_and_no_shared_folder(image: Image) -> None:
    image.add("ranks", SHOW, **ALL)
    image.add("two", SHOW, **ALL, needs={"tasks": 2})
    ran = Ran(image.start("--json", "-", **{**seen.mpiexec(0, 1), **NOWHERE}))
    assert ran.states == {"ranks": "passed", "two": "skipped"}, ran.stderr


@pytest.mark.parametrize("options", [{}, {"LUMI_VERIFY_SECRET": "0123456789abcdef", **NOWHERE}])
def test_no_check_sees_the_key_or_the_secret_that_takes_its_place(
    image: Image, options: dict[str, Any]
) -> None:
    image.add("show", f"#!/bin/bash\nenv\nls -A {image.root}\n", **ALL)
    ran = reports(image.tasks("--json", "-", **options))
    assert ran.states == {"show": "passed"}
    assert ".lumi-verify" not in ran.check("show")["output"]
    assert "0123456789abcdef" not in ran.stdout


def test_ranks_of_mpiexec_meet_though_it_sets_nothing_for_the_run(image: Image) -> None:
    image.add("ranks", SHOW, **ALL)
    ran = reports([image.start("--json", "-", **seen.mpiexec(rank, 4)) for rank in range(4)])
    assert (ran.states, ran.report["place"]["ranks"]) == ({"ranks": "passed"}, 4)


def test_a_rank_that_is_interrupted_while_it_looks_for_rank_0_ends_with_130(image: Image) -> None:
    image.add("one", SHOW)
    (other,) = image.tasks(ranks=2, absent=[0])
    awaited(lambda: process._catches(other.pid, signal.SIGTERM))
    other.terminate()
    assert Ran(other).code == 130
