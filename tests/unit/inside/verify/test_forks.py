"""Checks that share imports are forked from one process, and cannot harm each other by it."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from lumicontainer.inside.verify.forks import NUMBER, Forked, Servers
from lumicontainer.inside.verify.local import BESIDE

from .verifying import ABOVE, Image, Ran

pytestmark = pytest.mark.slow

SHARED = (
    "import os\nwith open(os.environ['HOME'] + '/imported', 'a') as file:\n    file.write('x')\n"
)
CHANGES = """
import os, sys
import shared
assert not hasattr(shared, "changed") and "CHANGED" not in os.environ and os.getcwd() != "/"
shared.changed = os.environ["CHANGED"] = "1"
sys.modules["json"] = None
os.chdir("/")
"""
DESCRIPTORS = """
import os
for each in sorted(os.listdir("/proc/self/fd"), key=int):
    path = f"/proc/self/fd/{each}"
    if os.path.exists(path):
        print(each if int(each) < 3 else os.path.basename(os.readlink(path)))
"""


@pytest.fixture
def image(tmp_path: Path) -> Image:
    image = Image(tmp_path, ["shared"])
    (image.home / "lib/shared.py").write_text(SHARED)
    return image


def run_on_one_processor(image: Image) -> Ran:
    """Run one check at a time, the last one first."""
    return Ran(image.start("--json", "-", before=["taskset", "-c", "0"]))


def test_a_module_is_imported_once_and_no_check_sees_what_another_changed(image: Image) -> None:
    for name in ("a", "b", "c"):
        image.add(name, CHANGES)
    assert image.run().states == dict.fromkeys("abc", "passed")
    assert (image.root / "imported").read_text() == "x"


def test_a_server_from_which_another_was_forked_names_the_reaper_of_a_check(tmp_path: Path) -> None:
    file = tmp_path / "check.py"
    file.write_text("import os\nprint(os.getppid())\n")
    with closing(Servers(os.environ, str(tmp_path), str)) as servers:
        server = servers.having(["json"], 60).result()
        assert server is not None
        assert server.extended(["socket"]).ready(60, str)
        started = server.start(str(file), os.environ)
        assert started is not None
        process, lifeline = started
        with process.stdout:
            assert (process.wait(60), int(process.stdout.read())) == (0, process.pid)
        os.close(lifeline)


def test_a_forked_check_has_the_standard_streams_and_a_file_for_stacks(image: Image) -> None:
    image.add("forked", DESCRIPTORS)
    output = image.run().check("forked")["output"]
    assert re.fullmatch(r"0\n1\n2\nreport\.stacks-\d+\n", output)


def test_modules_are_imported_while_a_check_without_imports_runs(image: Image) -> None:
    image.add("forked", "import shared")
    image.add("waits", "#!/bin/bash\nuntil [[ -e $HOME/imported ]]; do sleep 0.01; done\n")
    assert run_on_one_processor(image).states == {"forked": "passed", "waits": "passed"}


def test_checks_give_way_to_modules_that_need_each_other(tmp_path: Path) -> None:
    lower = min(os.nice(0) + BESIDE, 19)
    image = Image(tmp_path, ["json", "socket"])
    image.add("forked", f"import os; assert os.nice(0) == {lower}")
    image.add("alone", f"#!/bin/bash\n[[ $(nice) == {lower} ]]\n")
    assert image.run().states == {"forked": "passed", "alone": "passed"}


@pytest.mark.parametrize(
    ("module", "state"),
    [
        pytest.param("raise ImportError", "error", id="cannot be imported"),
        pytest.param("import os; os._exit(0)", "passed", id="ends the process"),
        pytest.param("import os; os.kill(os.getpid(), 11)", "error", id="crashes"),
    ],
)
def test_without_the_server_a_check_starts_alone(image: Image, module: str, state: str) -> None:
    (image.home / "lib/shared.py").write_text(module)
    image.add("holds", "print('it holds')")
    image.add("imports", "import shared")
    assert image.run().states == {"holds": "passed", "imports": state}
    assert image.left() == []


def test_a_process_that_has_ended_keeps_no_descriptor() -> None:
    (output, _), (status, ended) = os.pipe(), os.pipe()
    process = Forked(os.getpid(), output, status)
    assert process.poll() is None
    os.write(ended, NUMBER.pack(7 << 8))
    assert process.wait(60) == process.poll() == 7
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(status)


def test_a_killed_server_harms_the_check_that_runs_and_no_later_one(image: Image) -> None:
    image.add("later", "import shared")
    image.add("first", ABOVE + "os.kill(above, 9)\ntime.sleep(1000)\n")
    ran = run_on_one_processor(image)
    assert ran.states == {"later": "passed", "first": "error"}
    assert "signal 9" in ran.check("first")["reason"]
    assert image.left() == []
