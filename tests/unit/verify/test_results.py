"""Parts of a verification are joined, and what is lost on the way is reported."""

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from lumicontainer.core.catalog import open_catalog
from lumicontainer.engines.apptainer import Apptainer
from lumicontainer.errors import InputError
from lumicontainer.image.records import read_results
from lumicontainer.inside.verify import report
from lumicontainer.inside.verify.outcome import FAILED, PASSED, Outcome
from lumicontainer.verify import html, job, results
from lumicontainer.verify.results import PartialResult
from lumicontainer.verify.subject import Subject, chosen, in_other_ways

from ..image.test_sif import image as make_image

PLACE = {"host": "nid005001", "nodes": 2, "ranks": 16, "gpus": 8, "architecture": "gfx90a"}
PLACE |= {"network": ""}


def check(name: str, **more: Any) -> dict[str, Any]:
    always = {"summary": "something", "level": "quick", "hint": "build it again"}
    return {"name": name, **always, "timeout_seconds": 60, **more}


def came(name: str, state: str = PASSED, **more: Any) -> dict[str, Any]:
    return {**results.row(check(name), Outcome(state, "why")), **more}


def joined(folder: Path, *parts: PartialResult, rows: tuple[Any, ...] = ()) -> dict[str, Any]:
    subject = Subject(folder, (), {"recipe": "r", "platform": {"name": "p"}, "profile": ""})
    head = {"file": make_image(folder / "x.sif"), "level": "quick", "begun": 0}
    return results.joined(subject, parts, rows, head=head)


@pytest.mark.parametrize(
    ("data", "why", "states"),
    [
        ({"interrupted": "it was ended"}, "it was ended", ["passed", "error"]),
        ({}, "lumi-verify did not report it", ["passed", "error"]),
        (None, "the node fell over", ["error", "error"]),
    ],
)
def test_a_check_without_a_result_is_an_error_with_the_reason(
    data: dict[str, Any] | None, why: str, states: list[str]
) -> None:
    report = {**data, "checks": [came("a/b")]} if data is not None else None
    part = PartialResult([check("a/b"), check("a/c")], report, "" if report else why)
    assert [row["state"] for row in part.rows()] == states
    assert part.rows()[1]["reason"] == why


def test_parts_and_rows_are_one_result_with_the_place_of_the_first(tmp_path: Path) -> None:
    one = PartialResult([check("a/b")], {"place": PLACE, "checks": [came("a/b")]})
    checks = [came("a/c", FAILED)]
    two = PartialResult([check("a/c")], {"place": {**PLACE, "ranks": 2}, "checks": checks})
    result = joined(tmp_path, one, two, rows=(came("host/key"),))
    assert [row["name"] for row in result["checks"]] == ["a/b", "a/c", "host/key"]
    assert result["place"] == PLACE
    assert result["counts"] == {"passed": 2, "skipped": 0, "failed": 1, "error": 0}
    assert not results.passed(result)
    assert results.summary(result).startswith("failed   a/c: why\n3 checks: 2 passed, 1 failed")


def test_a_report_may_have_rows_beside_its_checks(tmp_path: Path) -> None:
    rows = [came("a/b"), came("lumi-verify/ranks", "error")]
    result = joined(tmp_path, PartialResult([check("a/b")], {"place": PLACE, "checks": rows}))
    assert [row["name"] for row in result["checks"]] == ["a/b", "lumi-verify/ranks"]
    assert not results.passed(result)


def job_of(checks: list[dict[str, Any]], platform: str, image: Path, **more: Any) -> job.Job:
    apptainer = Apptainer(Path("/usr/bin/apptainer"))
    return job.Job(image, open_catalog().platform(platform), apptainer, job.steps(checks), **more)


@pytest.mark.parametrize(
    ("state", "code", "problem"),
    [
        (PASSED, "0", False),
        (FAILED, "1", False),
        (PASSED, "255", True),
        (PASSED, "1", True),
        (FAILED, "0", True),
        (FAILED, "137", True),
        (PASSED, "", True),
    ],
)
def test_a_step_that_ends_otherwise_than_its_report_says_is_a_failed_job(
    tmp_path: Path, state: str, code: str, problem: bool
) -> None:
    verification = job_of([check("a/b")], "workstation", tmp_path / "x.sif")
    rows = [came("a/b", state)]
    reported = {"place": PLACE, "checks": rows, "counts": report.counts(rows), "interrupted": ""}
    (tmp_path / "0.json").write_text(json.dumps(reported))
    if code:
        (tmp_path / "0.code").write_text(f"{code}\n")
    collected = job._collect(verification, tmp_path, "")
    assert bool(collected.problem) == problem
    if code and collected.problem:
        assert f"exit code {code}" in collected.problem.why
    assert [row["state"] for row in collected.parts[0].rows()] == [state]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"checks": 1}', b"srun: error: x\n{}"])
def test_text_that_is_no_report_is_not_taken_for_one(text: bytes) -> None:
    assert read_results(text) is None


RANK = {"rank": 1, "host": "nid1", "state": FAILED, "halted": False, "reason": "x", "seconds": 1.0}
MEASURED = {"name": "speed", "value": 3, "holds": True, "minimum": 2, "unit": "GB/s", "source": "x"}
ROW = came("a/b", FAILED, ranks=[RANK], measured=[MEASURED], facts={"series": [1]})
REPORTED = {"place": PLACE, "checks": [ROW], "counts": report.counts([ROW]), "interrupted": ""}
OTHERS = (None, -1, "x", 10**400, [], {}, [[]], [None], [{}], {"state": 1}, "[" * 9)


def other_reports(value: Any) -> Iterator[Any]:
    """Yield a report with one value of another kind, or without one."""
    yield from OTHERS
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        for other in other_reports(each) if isinstance(each, dict | list) else OTHERS:
            changed = copy.copy(value)
            changed[key] = other
            yield changed


@pytest.mark.slow
def test_a_report_of_an_image_is_joined_or_left_out(tmp_path: Path) -> None:
    checks, read = [check("a/b")], 0
    for each in [REPORTED, *other_reports(REPORTED)]:
        data = read_results(json.dumps(each).encode())
        read += data is not None
        part = PartialResult(checks, data)
        whole = joined(tmp_path, part)
        assert html.page(whole)
        assert report.as_junit(whole)
        assert results.summary(whole)
        assert data is None or results.passed(data) in (True, False)
    assert read


def test_a_report_that_is_nested_too_deep_is_left_out() -> None:
    assert read_results(b"[" * 60_000) is None


def test_reports_are_written_of_every_result(tmp_path: Path) -> None:
    series = [{"name": "<x>", "points": [[1, 1], [2, 2]]}]
    rows = (
        came("a/b", output="<script>x</script>"),
        came("a/c", FAILED, reason="]]> <u>\x1b[1m", hint="<i>hint</i>"),
        came("a/d", measured=[{"name": "speed", "value": None, "holds": False, "minimum": 3}]),
        came("a/e", reported={"bandwidth": {"series": series}}),
        came("a/f", reported={"ranks": [{"rank": 0, "host": "<nid>", "nic": "<hsn>"}]}),
    )
    result = joined(tmp_path, PartialResult([], None), rows=rows)
    text = html.page(json.loads(json.dumps(result))).decode()
    assert [tag for tag in ("<script", "<u>", "<i>", "<nid>", "<hsn>", "<x>") if tag in text] == []
    assert "&lt;i&gt;hint&lt;/i&gt;" in text
    assert "no number" in text
    (suite,) = JUnitXml.fromstring(report.as_junit(result))
    assert (suite.tests, suite.failures) == (5, 1)
    assert [case.name for case in suite] == ["b", "c", "d", "e", "f"]
    (failure,) = next(case for case in suite if case.name == "c").result
    assert (failure.message, failure.text) == ("]]> <u>[1m", "]]> <u>[1m\nhint: <i>hint</i>")


def test_other_start_modes_are_separate_checks() -> None:
    checks = [check("image/environment", start_modes=["exec", "run", "umask"]), check("a/b")]
    name = "image/environment"
    ways = [(each["name"], each["of"], each["way"]) for each in in_other_ways(checks)]
    assert ways == [(f"{name} [{way}]", name, way) for way in ("run", "umask")]


NAMED = [check("a/b", start_modes=["run"]), check("a/bc"), check("a/b [c]")]
NAMED.append(check("d/b", level="full"))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a/b"], ["a/b", "a/b [run]"]),
        (["a/b [run]"], ["a/b [run]"]),
        (["/b"], ["a/b", "a/bc", "a/b [c]", "d/b", "a/b [run]"]),
        (["?/b"], ["a/b", "d/b"]),
        (["a/bc", "d/b"], ["a/bc", "d/b"]),
        ([], ["a/b", "a/bc", "a/b [c]", "a/b [run]"]),
    ],
)
def test_a_whole_name_is_one_check_in_all_its_ways(names: list[str], expected: list[str]) -> None:
    checks = [*NAMED, *in_other_ways(NAMED)]
    assert [each["name"] for each in chosen(checks, "quick", names)] == expected


def test_an_unknown_name_is_refused_with_near_matches() -> None:
    with pytest.raises(InputError, match="did you mean a/bc"):
        chosen([check("a/bc")], "quick", ["a/bd"])


MPI = {"runs": "ranks", "needs": {"mpi": True}}


def test_each_check_of_mpi_has_its_own_step_after_the_others() -> None:
    checks = [check("a/mpi", **MPI), check("a/b"), check("a/c"), check("a/mpi2", **MPI)]
    steps = [([each["name"] for each in step.checks], step.mpi) for step in job.steps(checks)]
    assert steps == [(["a/b", "a/c"], "none"), (["a/mpi"], "pmi2"), (["a/mpi2"], "pmi2")]


def test_a_job_asks_for_the_time_that_its_checks_may_take_within_reason(tmp_path: Path) -> None:
    assert job.minutes([check("a/b", timeout_seconds=61)] * 2) == 5 + 3
    long = [check("a/b", timeout_seconds=3600)] * 9
    text = job.script(job_of(long, "workstation", Path("x.sif")), tmp_path)
    assert "#SBATCH --time=60\n" in text
    assert "step 0 545 none" in text, "where the user asks for more time, the step has it"


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["workstation", "lumi-g"])
def test_the_batch_script_is_bash_whatever_files_are_called(tmp_path: Path, platform: str) -> None:
    folder = tmp_path / 'it\'s $(touch here) "dir"'
    folder.mkdir()
    checks = [check("a/b"), check("a/mpi", **MPI)]
    more: dict[str, Any] = {"nodes": 2, "required": "gpu,network", "binds": platform == "lumi-g"}
    verification = job_of(checks, platform, folder / "a\nb.sif", **more)
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\nprintf "%s|" "$@" >&2; echo >&2; echo "{}"\nexit 3\n')
    srun.chmod(0o755)
    # A stand-in for lumicontainer binds, which the script calls where a container has binds.
    binds = ("-m lumicontainer binds", "-c 'print(\"binds=(--bind /x)\")'")
    script = tmp_path / "job.sh"
    script.write_text(job.script(verification, folder).replace(*binds))
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["bash", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # The name of the image holds the end of a line.
    first, second = done.stderr.replace("a\nb", "a b").splitlines()
    assert "|--require|gpu,network|-k|a/b|" in first
    assert "--mpi=none|--time=6|" in first
    assert "--mpi=pmi2|" in second
    assert "a/mpi" in second
    assert str(folder / "a b.sif") in first
    assert ("--bind|/x" in first) == (platform == "lumi-g")
    written = {"0.code", "0.json", "1.code", "1.json", "ended"}
    assert {each.name for each in folder.iterdir()} == written
    assert (folder / "0.code").read_text() == "3\n"
    assert not (tmp_path / "here").exists()


def test_a_job_on_lumi_asks_for_whole_nodes_and_their_gpus(tmp_path: Path) -> None:
    verification = job_of([check("a/b")], "lumi-g", tmp_path / "x.sif", nodes=2)
    lines = job.script(verification, tmp_path).splitlines()
    assert {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")} == {
        *("--nodes=2", "--ntasks-per-node=8", "--time=6", "--exclusive", "--mem=0"),
        *("--gpus-per-node=8", "--cpus-per-task=7"),
    }
