"""lumi-verify runs checks, each to its end or its time limit, reports all, and leaves nothing."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from junitparser import JUnitXml, TestSuite

from ....namespaces import owned, prepared
from .verifying import HANGS, HOLDS, MARKED, Image, Ran, awaited

pytestmark = pytest.mark.slow

RENAMED = "import ctypes\nctypes.CDLL(None).prctl(15, b'pt_elastic')\n"
FORKS = "import os\nos.fork()\n"
FILLS = """
import os
file = os.open(os.environ["TMPDIR"] + "/x", os.O_CREAT | os.O_WRONLY)
try:
    while True:
        os.write(file, bytes(4096))
except OSError:
    pass
"""
LEAVES = f"#!/bin/bash\nmktemp\nenv -i setsid bash -c 'exec -a {MARKED} sleep 1000' &\n"
STAYS = ": >$MARK/hangs-$$\nsleep 1000\n"
DEAF = (
    "#!/bin/bash\nmktemp\ntrap '' TERM INT HUP USR1\n: >$MARK/hangs-$$\n"
    f"bash -c 'exec -a {MARKED} sleep 1000'\n"
)
ELEMENTS = {"passed": [], "failed": ["Failure"], "skipped": ["Skipped"], "error": ["Error"]}
"""The element of JUnit's XML for each state."""


def junit(image: Image) -> TestSuite:
    (suite,) = JUnitXml.fromfile(str(image.root / "j.xml"))
    return suite


@pytest.mark.parametrize(
    ("script", "state", "reported"),
    [
        (HOLDS, "passed", ""),
        ("import sys; sys.exit('it does not')", "failed", "it does not"),
        ("from lumi_inside.checking import skipped; skipped('no moon')", "skipped", "no moon"),
        ("1 / 0", "error", "exit code 70"),
        ("import os; os.kill(os.getpid(), 11)", "error", "signal 11"),
        ("#!/bin/bash\nexit 77", "skipped", "it gives no reason"),
        ("#!/bin/bash\necho gone >&2; exit 3", "error", "exit code 3\ngone"),
        ("import os; os._exit(1)", "failed", "it gives no reason"),
    ],
)
def test_what_comes_of_a_check(image: Image, script: str, state: str, reported: str) -> None:
    image.add("one", script)
    ran = image.run("--junit", "j.xml")
    assert ran.states == {"one": state}
    assert reported in ran.check("one")["reason"]
    assert ran.code == (state in ("failed", "error"))
    suite = junit(image)
    assert [type(each).__name__ for case in suite for each in case.result] == ELEMENTS[state]
    assert suite.tests == 1
    counted = (suite.failures, suite.skipped, suite.errors)
    assert counted == (state == "failed", state == "skipped", state == "error")


@pytest.mark.parametrize(
    "call",
    ["signal(signal.SIGCHLD, signal.SIG_IGN)", "pthread_sigmask(signal.SIG_BLOCK, [17])"],
    ids=["ignored", "blocked"],
)
def test_a_check_that_fails_is_noticed_without_sigchld(image: Image, call: str) -> None:
    start = f"import os, signal, sys; signal.{call}; os.execvp(sys.argv[1], sys.argv[1:])"
    image.add("holds", HOLDS)
    image.add("fails", "import sys; sys.exit('it does not')")
    image.add("script", "#!/bin/bash\nexit 1\n")
    ran = Ran(image.start("--json", "-", before=[sys.executable, "-c", start]))
    assert ran.states == {"holds": "passed", "fails": "failed", "script": "failed"}
    assert "it does not" in ran.check("fails")["reason"]


@pytest.mark.parametrize(("number", "total"), [(1, "1 check"), (10, "10 checks")])
def test_each_check_is_reported_with_its_number_as_it_ends(
    image: Image, number: int, total: str
) -> None:
    for each in range(number):
        image.add(f"c{each}", HOLDS)
    ran = Ran(image.start())
    wide = len(str(number))
    assert [line.partition("t/c")[0] for line in ran.stderr.splitlines()] == [
        f"[{each:{wide}}/{number}] passed   " for each in range(1, number + 1)
    ]
    assert ran.stdout.startswith(f"{total}: {number} passed, in ")


@pytest.mark.parametrize(
    ("script", "process"),
    [
        (HANGS, "python3"),
        (f'#!/bin/bash\npython3 -c "{HANGS}"\ntrue\n', "bash"),
        (f'#!/bin/bash\npython3 -c "{RENAMED}{HANGS}"\ntrue\n', "bash"),
        ("import os\nos.closerange(3, 200)\n" + HANGS, "python3"),
        (FORKS + HANGS, "python3"),
    ],
    ids=["a check in Python", "Python that a script starts", "renamed", "closes files", "forks"],
)
def test_a_check_that_hangs_ends_with_its_stacks_and_the_rest_go_on(
    image: Image, script: str, process: str
) -> None:
    processes_in_python = 2 if script.startswith(FORKS) else 1
    image.end_only_what_hangs(processes_in_python)
    image.add("hangs", script, timeout_seconds=1)
    image.add("later", HOLDS)
    ran = image.run()
    assert ran.states == {"hangs": "failed", "later": "passed"}
    assert "not finished after 1 s" in ran.check("hangs")["reason"]
    stacks, _, processes = ran.check("hangs")["output"].partition("processes on")
    assert stacks.count("in the_place") == processes_in_python
    assert process in processes
    assert image.left() == []


def test_a_check_that_hangs_on_a_full_disk_ends_with_its_stacks(image: Image, own: Path) -> None:
    image.end_only_what_hangs()
    image.add("hangs", FILLS + HANGS, timeout_seconds=1)
    small = prepared("mount", f"mount -t tmpfs -o size=256k,{owned()} none {own}")
    ran = Ran(image.start("--json", "-", before=small, TMPDIR=str(own)))
    assert "in the_place" in ran.check("hangs")["output"]


@pytest.mark.parametrize(
    "script",
    [LEAVES, LEAVES + "exit 1\n", LEAVES + STAYS, DEAF],
    ids=["leaves", "leaves and fails", "leaves and hangs", "deaf"],  # the scripts hold a number
)
def test_nothing_is_left_of_a_check_whatever_it_does_to_stay(
    image: Image, own: Path, script: str
) -> None:
    image.end_only_what_hangs()
    image.add("stays", script, timeout_seconds=1)
    assert str(own) in image.run(TMPDIR=str(own)).check("stays")["output"]
    assert image.left() == []
    assert list(own.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_reports_what_was_done_and_leaves_nothing(image: Image, number: int) -> None:
    image.add("done", HOLDS)
    image.add("hangs", DEAF, level="full", runs="node")
    running = image.start("--level", "full", "--json", "-", "--junit", "j.xml")
    awaited(lambda: any(MARKED in words for words in image.running()))
    running.send_signal(number)
    ran = Ran(running)
    assert (ran.code, ran.states) == (130, {"done": "passed"})
    assert signal.Signals(number).name in ran.report["interrupted"]
    assert image.left() == []
    suite = junit(image)
    assert (suite.tests, suite.errors) == (2, 1)
    (error,) = next(case for case in suite if case.name == "hangs").result
    assert error.message == ran.report["interrupted"]


@pytest.mark.parametrize(
    "script",
    [
        LEAVES + STAYS,
        "import tempfile, time\ntempfile.mkdtemp(prefix='tmp.')\ntime.sleep(1000)\n",
    ],
    ids=["a script", "Python"],
)
def test_killed_at_once_it_leaves_neither_processes_nor_files(
    image: Image, own: Path, script: str
) -> None:
    image.add("hangs", script)
    running = image.start(TMPDIR=str(own))
    awaited(lambda: list(own.glob("**/tmp.*")))
    running.kill()
    running.communicate()
    assert image.left() == []
    assert awaited(lambda: not list(own.iterdir()))


def test_killed_it_removes_no_folder_that_it_has_not_made(image: Image, own: Path) -> None:
    begun, report = own / "begun", own / "report"
    image.add("hangs", f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(1000)\n")
    report.touch()
    running = image.start(LUMI_VERIFY_REPORT=str(report))
    awaited(begun.exists)
    running.kill()
    running.communicate()
    assert image.left() == []
    assert report.exists()


def test_a_check_ends_at_once_with_the_process_that_started_it(image: Image) -> None:
    ended = image.root / "another is its parent"
    waits = f"until ! grep -q $'^PPid:\t'$PPID$ /proc/$$/status; do :; done\ntouch '{ended}'\n"
    image.add("alone", f"#!/bin/bash\nkill -KILL $PPID\n{waits}")
    assert image.run().states == {"alone": "error"}
    assert not ended.exists()


def test_the_end_of_much_output_is_kept_and_a_long_line_is_cut(image: Image) -> None:
    image.add("talks", "for n in range(2_000_000): print('line', n)\nprint('the end')\n")
    image.add("fails", "import sys; sys.exit('x' * 1_000_000)\n")
    ran = image.run()
    output = ran.check("talks")["output"]
    assert len(output) <= 1 << 20
    assert output.endswith("line 1999999\nthe end\n")
    assert len(ran.check("fails")["reason"]) < 500


def test_output_that_is_no_text_is_reported_in_every_form(image: Image) -> None:
    output = r"\xff\xfe\x00\x1b[31m\xef\xbf\xbe\n"
    image.add("talks", f"import os; os.write(2, b'{output}'); os._exit(1)")
    ran = image.run("--junit", "j.xml", LC_ALL="C")
    assert "\x1b" in ran.check("talks")["output"]
    assert "\x1b" not in ran.stderr
    assert [case.system_out for case in junit(image)] == ["\ufffd\ufffd[31m\n"]


def test_what_a_check_notes_and_measures_is_reported(image: Image) -> None:
    script = "from lumi_inside.checking import measured, note\nnote('seen', 1)\n"
    limit = {"unit": "GB/s", "minimum": 3, "source": "somebody"}
    image.add("slow", script + "measured('speed', 2.5)\n", thresholds={"speed": limit})
    row = image.run().check("slow")
    assert row["reason"] == "speed is 2.5 GB/s, less than 3 GB/s (somebody)"
    assert (row["facts"], row["measured"][0]["value"]) == ({"seen": 1}, 2.5)


def test_ranks_of_two_of_them_at_the_same_time_do_not_meet(image: Image) -> None:
    meets = (
        "import os, socket, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    with socket.create_server(('127.0.0.1', int(os.environ['MASTER_PORT']))):\n"
        "        time.sleep(1)\n"
    )
    image.add("meets", meets, runs="ranks", needs={"tasks": 2})
    for each in [image.start("--json", "-") for _ in range(3)]:
        rows = Ran(each).check("meets")["ranks"]
        assert [(row["rank"], row["state"]) for row in rows] == [(0, "passed"), (1, "passed")]


def test_a_list_is_lines_or_json(image: Image) -> None:
    image.add("one", HOLDS, needs={"gpus": 1})
    assert Ran(image.start("--list")).stdout == "t/one  quick  one holds\n"
    listed = json.loads(Ran(image.start("--list", "--json", "-")).stdout)
    assert [(row["name"], row["needs"]) for row in listed["checks"]] == [("t/one", {"gpus": 1})]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("-k", "t/onne"), "did you mean t/one?"),
        (("--require", "moon"), "invalid --require 'moon'\n    why: known are gpu"),
        (("--levl", "full"), "unrecognized arguments: --levl full"),
        (("--wait", "soon"), "expected a number of seconds, got 'soon'"),
        (("--json", "/nowhere/x.json"), "cannot write '/nowhere/x.json'"),
    ],
)
def test_what_is_wrong_is_reported_before_anything_runs(
    image: Image, words: tuple[str, ...], reported: str
) -> None:
    image.add("one", f"open({str(image.root / 'ran')!r}, 'w')")
    ran = Ran(image.start(*words))
    assert (ran.code, ran.stdout) == (2, "")
    assert reported in ran.stderr
    assert not (image.root / "ran").exists()


@pytest.mark.parametrize("text", [None, "{}", "[{", "\xff"])
def test_an_image_without_a_list_of_checks_has_not_passed(image: Image, text: str | None) -> None:
    if text is not None:
        (image.home / "checks.json").write_text(text, encoding="latin-1")
    ran = Ran(image.start())
    assert ran.code == 2
    assert "cannot read the list of the image's checks" in ran.stderr


def test_a_check_whose_file_is_gone_is_an_error(image: Image) -> None:
    image.add("gone", HOLDS)
    image.add("there", HOLDS)
    (image.home / "checks/t/gone.py").unlink()
    assert image.run().states == {"gone": "error", "there": "passed"}


def test_a_check_whose_report_cannot_be_read_is_an_error(image: Image) -> None:
    deep = "'[' * 1_000_000"
    image.add("deep", f"import os\nopen(os.environ['LUMI_VERIFY_REPORT'], 'w').write({deep})\n")
    image.add("holds", HOLDS)
    ran = image.run()
    assert ran.states == {"deep": "error", "holds": "passed"}
    assert "RecursionError" in ran.check("deep")["reason"]


def test_a_check_finds_the_user_s_modules_with_a_safe_path(image: Image, own: Path) -> None:
    (own / "of_the_user.py").touch()
    image.add("one", "import of_the_user")
    assert image.run(PYTHONSAFEPATH="1", PYTHONPATH=str(own)).states == {"one": "passed"}


def test_a_name_that_is_a_check_s_own_means_no_other(image: Image) -> None:
    for name in ("one", "one_more"):
        image.add(name, HOLDS)
    assert list(image.run("-k", "t/one").states) == ["one"]
    assert list(image.run("-k", "one").states) == ["one", "one_more"]


def test_a_folder_that_cannot_be_written_gives_way_to_another(image: Image, own: Path) -> None:
    image.add("one", "import tempfile; print(tempfile.mkdtemp()); print('x' * 1_000_000)")
    fill = f"mount -t tmpfs -o size=64k,{owned()} none {own} && ! head -c 1M /dev/zero >{own}/x"
    full = prepared("mount", fill)
    for folder, before in (("/nowhere", []), ("/proc", []), (str(own), full)):
        ran = Ran(image.start("--json", "-", before=before, TMPDIR=folder))
        assert ran.states == {"one": "passed"}, f"{folder}: {ran.stderr}"


def test_in_a_folder_that_is_gone_checks_run_and_files_are_refused(image: Image, own: Path) -> None:
    image.add("one", HOLDS)
    image.add("two", HOLDS, runs="ranks", needs={"tasks": 2})
    gone = ("sh", "-c", f'mkdir -p {own}/x; cd {own}/x; rmdir {own}/x; exec "$0" "$@"')
    ran = Ran(image.start("--json", str(own / "out.json"), before=gone))
    assert ran.code == 0, ran.stdout
    refused = Ran(image.start("--json", "out.json", before=gone))
    assert (refused.code, refused.stdout) == (2, "")
    assert "where: a folder that was removed" in refused.stderr


def test_without_a_folder_to_write_to_it_says_what_each_refused(image: Image) -> None:
    image.add("one", HOLDS)
    sealed = " && ".join(f"mount -t tmpfs -o ro none {place}" for place in ("/var/tmp", "/dev/shm"))
    # The test's own files are below /tmp.
    sealed += " && mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp"
    ran = Ran(image.start(before=prepared("mount", sealed), TMPDIR="/proc"))
    assert ran.code == 3
    assert "lumi-verify needs a writable folder" in ran.stderr
    assert "/dev/shm: Read-only file system" in ran.stderr
