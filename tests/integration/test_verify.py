"""lumicontainer verify, with real containers: each way to end and to start, every report."""

import hashlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml

from ..cli.conftest import succeeded
from .conftest import lumicontainer, pasted
from .processes import SECONDS, processes_of, started
from .proof import WAYS


def verify(image: Path, *words: object) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Verify an image; return what was printed, and the result as JSON."""
    done = lumicontainer("verify", image, "--json", *words)
    return done, json.loads(done.stdout) if done.stdout else {}


def states(result: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["state"] for row in result["checks"]}


@pytest.fixture(scope="module")
def full(proof: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """Verify the image once with all reports."""
    folder = tmp_path_factory.mktemp("reports")
    names = ["--level", "full"]
    reports = ["--junit", folder / "junit.xml", "--html", folder / "report.html"]
    return (*verify(proof, *names, *reports), folder)


def test_each_check_comes_to_what_it_ends_with(full: tuple[Any, ...]) -> None:
    done, result, _ = full
    assert done.returncode == 1
    outcomes = states(result)
    own = {name: state for name, state in outcomes.items() if name.startswith(("proof/", "host/"))}
    assert own == {
        "proof/pictures": "passed",
        "proof/environment": "passed",
        **{f"proof/environment [{way}]": "passed" for way in WAYS},
        "proof/gpu": "skipped",
        "proof/mask": "passed",
        "proof/mask [umask]": "failed",
        "proof/fails": "failed",
        "proof/broken": "error",
        "proof/ranks": "passed",
        "proof/mpi": own["proof/mpi"],
        "host/whole": "passed",
        "host/key": "passed",
    }
    assert own["proof/mpi"] != "passed"
    rows = {row["name"]: row for row in result["checks"]}
    assert "no GPU" in rows["proof/gpu"]["reason"]
    assert rows["proof/mask [umask]"]["output"] == "0077\n"
    assert "a fault of its own" in rows["proof/broken"]["output"]
    assert sum(result["counts"].values()) == len(rows)


def test_each_check_is_counted_when_it_is_done_and_the_summary_names_what_fails(
    full: tuple[Any, ...],
) -> None:
    done, result, _ = full
    total = len(result["checks"])
    counted = re.findall(r"(?m)^[\d:]{8} \[ *(\d+)/(\d+)\] (\w+)", done.stderr)
    assert [row[:2] for row in counted] == [(f"{n}", f"{total}") for n in range(1, total + 1)]
    assert {state for *_, state in counted} == {"passed", "failed", "error", "skipped"}
    # The ranks of a check have the processors for themselves.
    assert done.stderr.index("proof/ranks") < done.stderr.index("proof/environment [")
    # On a busy machine a line says every 30 s that it goes on.
    assert not re.search(r"(?m) verify  +(?!\d+ s(  |$))", done.stderr)
    assert "hint: write & hint it" in done.stderr
    assert "failed   proof/fails: <b>it is broken</b>\n" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"{total} checks: ")


def test_the_reports_in_files_say_the_same(full: tuple[Any, ...], proof: Path) -> None:
    _, result, folder = full
    assert result["image"]["sha256"] == hashlib.sha256(proof.read_bytes()).hexdigest()
    (suite,) = JUnitXml.fromfile(str(folder / "junit.xml"))
    (failure,) = next(case for case in suite if case.name == "fails").result
    assert (suite.tests, failure.message) == (len(result["checks"]), "<b>it is broken</b>")
    page = (folder / "report.html").read_text()
    assert "&lt;b&gt;it is broken&lt;/b&gt;" in page
    assert (page.count("<polyline"), page.count("NIC hsn")) == (1, 16)
    assert page.count(result["image"]["sha256"]) == page.count(result["engine"]) == 1
    for name in ("src=", "href=", "@import", "url(", "<script"):
        assert name not in page
    for part in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + part.partition("</svg>")[0] + "</svg>")


def test_require_fails_what_would_be_skipped(proof: Path) -> None:
    done, result = verify(proof, "-k", "proof/gpu", "--require", "gpu")
    assert (done.returncode, states(result)) == (1, {"proof/gpu": "failed"})


def test_what_holds_ends_with_0_and_a_line_on_stdout(proof: Path) -> None:
    done = succeeded(lumicontainer("verify", proof, "-k", "proof/pictures"))
    assert done.stdout.startswith("1 check: 1 passed, in ")


def test_an_image_that_cannot_start_is_all_errors(proof: Path, tmp_path: Path) -> None:
    # A stand-in for an engine that fails, as one does that may make no user namespace.
    engine = tmp_path / "apptainer"
    engine.write_text("#!/bin/sh\necho 'no namespace for you' >&2\nexit 255\n")
    engine.chmod(0o755)
    words = ("verify", proof, "-k", "proof/pictures", "-k", "proof/gpu", "--json")
    done = lumicontainer(*words, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert states(result) == {"proof/pictures": "error", "proof/gpu": "error"}
    assert "no namespace for you" in result["checks"][0]["reason"]


def test_an_image_with_options_of_a_build_is_current(proof_recipes: Path, tmp_path: Path) -> None:
    image = tmp_path / "proof.sif"
    options = ("--set", "proof.strength=7", "--output", image, "--no-verify")
    assert lumicontainer("build", "proof", "--recipes", proof_recipes, *options).returncode == 0
    words = ("-k", "host/recipe", "--recipe", "proof", "--recipes", proof_recipes)
    assert states(verify(image, *words)[1]) == {"host/recipe": "passed"}


def test_the_command_that_is_printed_makes_a_failed_check_again(full: tuple[Any, ...]) -> None:
    done, result, folder = full
    commands = {row["name"]: row["again"] for row in result["checks"] if "again" in row}
    assert commands.keys() == {
        row["name"] for row in result["checks"] if row["state"] in ("failed", "error")
    }
    for name in ("proof/fails", "proof/mask [umask]"):
        assert f"run it again: {commands[name]}\n" in done.stderr
        again = pasted(commands[name], cwd=folder)
        assert again.returncode == 1, again.stderr
        assert f"failed   {name}: " in again.stdout


def test_ctrl_c_leaves_nothing_running(proof: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "lumicontainer", "verify", proof]
    command = [*words, "-k", "proof/slow", "-k", "proof/pictures"]
    with started(command, env={"MARK": str(tmp_path)}) as process:
        assert any("proof/pictures" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 130
    assert processes_of(tmp_path) == []


def test_a_list_of_checks_is_reported_as_json_too(proof: Path) -> None:
    done = lumicontainer("verify", proof, "--list", "--json", "-k", "proof/gpu")
    assert [each["name"] for each in json.loads(done.stdout)["checks"]] == ["proof/gpu"]
