"""Planted faults are found at their places, clean scripts have none, and fixes change no more."""

import itertools
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.jobs.lint.edits import diff
from lumicontainer.jobs.lint.job import BatchJob
from lumicontainer.jobs.lint.lint import CHECKS, IGNORE, SYNTAX, fix_script, judge_script
from lumicontainer.jobs.lint.reading.parse import parse_script
from lumicontainer.jobs.lint.reading.text import LARGEST
from lumicontainer.jobs.lint.rules import rules
from lumicontainer.jobs.scripts.layout import Demand

from ....conftest import ROOT
from ....documents import Block, blocks
from ....lint_cases import CLEAN, FAULTS, Found, expected, lumi, places
from ...cpu import within
from ..scripts.test_batch import BODY, lines

HEAD = b"#!/bin/bash\n#SBATCH --account=a\n"
BROKEN = {"unclosed-quote"}
"""Here bash is asked, which a pure test may not start."""
READ = [each for each in FAULTS if each.stem not in BROKEN]
MANUAL = [each for each in blocks(ROOT / "docs/lumi.md") if each.is_job]
IMAGE = {
    "platform": {"name": "lumi-g"},
    "layers": {
        "rocm": {"version": "6.4.4"},
        "pytorch": {"version": "2.9.1"},
        "mpich": {"version": "4.3.2"},
        "rccl-plugin": {"version": "1.19.0", "parameters": {"plugin": "aws-ofi-nccl"}},
    },
}
NEWER = {**IMAGE, "layers": {**IMAGE["layers"], "rocm": {"version": "7.0.2"}}}
TWO_NODES = HEAD + b"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n"
BIND = b"export SINGULARITY_BIND=/var/spool/slurmd,/pfs,/scratch\n"
STEP = b"srun singularity exec a.sif lumi-entry train.py\n"


def judged(data: bytes, image: dict[str, object] | None = None) -> Found:
    return places(judge_script("job.sh", data, lumi(), image))


def rules_in(data: bytes, image: dict[str, object] | None = None) -> list[str]:
    return [rule for _, _, rule in judged(data, image)]


@pytest.mark.parametrize("script", READ, ids=lambda each: each.stem)
def test_planted_faults_are_found_and_nothing_else(script: Path) -> None:
    assert expected(script)
    assert judged(script.read_bytes()) == expected(script)


@pytest.mark.parametrize("script", CLEAN, ids=lambda each: each.stem)
def test_a_clean_script_has_no_finding(script: Path) -> None:
    assert judged(script.read_bytes()) == []


def test_there_are_scripts_for_every_rule() -> None:
    assert len(FAULTS) >= 90
    assert len(CLEAN) >= 30
    planted = {rule for script in FAULTS for _, _, rule in expected(script)}
    elsewhere = {"dos-line-ends", "fp16-with-rocm-6.4"}
    assert rules().keys() - planted == elsewhere


@pytest.mark.parametrize("block", MANUAL, ids=str)
def test_a_script_of_the_manual_has_no_fault_and_asks_for_all_cores_that_it_pays_for(
    block: Block,
) -> None:
    script = block.text.encode()
    assert judged(script) == []
    job = BatchJob(parse_script("job.sh", script), lumi(), {})
    request = {"gpus": job.gpus or 0, "cores": job.cores or 1}
    assert job.hourly_cost(**request, memory=job.memory or 1) == job.hourly_cost(**request)


def test_each_rule_has_its_predicate_and_all_its_texts() -> None:
    assert len(rules()) >= 45
    assert CHECKS.keys() | {SYNTAX, IGNORE} == rules().keys()
    for rule in rules().values():
        assert rule.level in ("error", "warning")
        assert all((rule.what, rule.why, rule.source, rule.hint)), rule.id


@pytest.mark.parametrize("script", READ, ids=lambda each: each.stem)
def test_no_text_of_a_finding_has_a_fact_left_out(script: Path) -> None:
    for finding in judge_script("job.sh", script.read_bytes(), lumi()):
        rule = rules()[finding.rule]
        shown = str(finding)
        for text in (rule.what, rule.why, rule.source, rule.hint):
            names = [each.partition("}")[0] for each in text.split("{")[1:]]
            assert not [name for name in names if name.isidentifier() and f"{{{name}}}" in shown]


@pytest.mark.slow
@pytest.mark.parametrize("script", READ, ids=lambda each: each.stem)
def test_a_fix_cures_what_it_claims_and_is_done_once(script: Path) -> None:
    data = script.read_bytes()
    before = judge_script("job.sh", data, lumi())
    fixed = fix_script("job.sh", data, lumi())
    assert fix_script("job.sh", fixed, lumi()) == fixed
    after = judge_script("job.sh", fixed, lumi())
    assert [each for each in after if each.edits] == []
    if not any(each.edits for each in before):
        assert fixed == data
    else:
        assert len(after) < len(before)


@pytest.mark.slow
@pytest.mark.parametrize("script", READ, ids=lambda each: each.stem)
def test_a_fix_keeps_the_lines_that_it_does_not_correct(script: Path) -> None:
    data = script.read_bytes()
    wrong = {line for line, _, _ in expected(script)}
    fixed = fix_script("job.sh", data, lumi()).splitlines(keepends=True)
    kept = [each for number, each in enumerate(data.splitlines(True), 1) if number not in wrong]
    left = iter(fixed)
    assert all(line in left for line in kept)


def test_the_image_decides_which_values_do_harm() -> None:
    script = TWO_NODES + BIND + b"export NCCL_NET_GDR_LEVEL=PHB\n" + STEP
    assert rules_in(script) == []
    assert rules_in(script, IMAGE) == ["mpi-option-missing"]
    assert "discouraged-variable" in rules_in(script, NEWER)


def test_the_number_of_nodes_decides_which_values_do_harm() -> None:
    script = TWO_NODES + BIND + b'export NCCL_NET="AWS Libfabric"\n' + STEP
    assert rules_in(script) == []
    assert rules_in(script.replace(b"--nodes=2", b"--nodes=1")) == ["discouraged-variable"]


def test_fp16_is_discouraged_with_the_rocm_that_computes_it_wrongly() -> None:
    script = TWO_NODES + BIND + STEP.replace(b"srun", b"srun --mpi=pmi2").strip() + b" --fp16\n"
    assert rules_in(script, IMAGE) == ["fp16-with-rocm-6.4"]
    assert rules_in(script, NEWER) == rules_in(script) == []


def test_an_image_with_mpi_needs_the_option_of_the_platform() -> None:
    script = TWO_NODES + BIND + STEP
    (finding,) = judge_script("job.sh", script, lumi(), IMAGE)
    assert finding.rule == "mpi-option-missing"
    fixed = fix_script("job.sh", script, lumi(), IMAGE)
    assert fixed == script.replace(b"srun ", b"srun --mpi=pmi2 ")


def test_carriage_returns_are_found_once_and_removed() -> None:
    script = (TWO_NODES + BIND + STEP).replace(b"\n", b"\r\n")
    assert judged(script) == [(1, 12, "dos-line-ends")]
    assert fix_script("job.sh", script, lumi()) == script.replace(b"\r\n", b"\n")


def test_a_file_without_a_last_newline_keeps_none() -> None:
    script = (TWO_NODES + BIND + b"srun apptainer exec a.sif lumi-entry train.py").rstrip()
    fixed = fix_script("job.sh", script, lumi())
    assert fixed == script.replace(b"apptainer", b"singularity")
    assert diff("job.sh", script, fixed).endswith("\\ No newline at end of file\n")


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("binary", b"\x7fELF\0\0\0", "NUL"),
        ("a NUL in the middle", HEAD + b"srun a\0b\n", "NUL"),
        ("another encoding", HEAD + "echo Größe\n".encode("latin-1"), "line 3 is not UTF-8"),
        ("10 MB", HEAD + b"echo x\n" * 1_500_000, "bytes"),
        ("nesting", HEAD + b"(" * 5000 + b"true" + b")" * 5000, "nested"),
        ("nested substitutions", HEAD + b"x=" + b"$(echo " * 2000 + b")" * 2000, "nested"),
    ],
)
def test_what_is_no_script_is_refused_with_the_reason(name: str, data: bytes, says: str) -> None:
    with within(5), pytest.raises(InputError, match=says):
        judge_script(name, data, lumi())


HOSTILE = {
    "nothing": b"",
    "one newline": b"\n",
    "blanks": b" \t" * 100_000,
    "one long line": HEAD + b"echo " + b"a" * 200_000,
    "many words": HEAD + b"srun " + b"--x " * 60_000,
    "many options": b"#!/bin/bash\n" + b"#SBATCH --nodes=2\n" * 12_000,
    "hashes": b"#" * 250_000,
    "many quotes": HEAD + b"echo '" * 40_001,
    "dollars": HEAD + b"echo " + b"$" * 250_000,
    "here-documents": HEAD + b"cat <<A\n" * 20_000,
    "a mask without end": HEAD + b"srun --cpu-bind=mask_cpu:" + b"0xff," * 50_000 + b" x\n",
    "a number without end": HEAD + b"#SBATCH --nodes=" + b"9" * 100_000 + b"\n",
    "shells in shells": HEAD + b"bash -c '" * 60 + b"true" + b"'" * 60,
    "references": HEAD + b"a=x\n" + b"".join(b"a=$a$a\n" for _ in range(64)) + b"srun $a\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_script_is_judged_or_refused_in_bounded_time(name: str) -> None:
    assert len(HOSTILE[name]) <= LARGEST
    with within(10):
        try:
            judge_script(name, HOSTILE[name], lumi())
        except InputError as error:
            assert error.problems


def test_a_hundred_scripts_are_judged_in_two_seconds() -> None:
    scripts = [each.read_bytes() for each in itertools.islice((*CLEAN, *READ), 100)]
    assert len(scripts) == 100
    judged(scripts[0])
    with within(2):
        for data in scripts:
            judged(data)


DEMANDS = {
    "one node": Demand(),
    "two nodes": Demand(nodes=2),
    "one GPU": Demand(gpus=1),
    "six GPUs": Demand(gpus=6),
    "whole nodes of a shared partition": Demand(partition="small-g"),
    "a partition for tests": Demand(partition="dev-g", gpus=2),
}


@pytest.mark.parametrize("name", DEMANDS)
@pytest.mark.parametrize("launcher", [(), ("--launcher", "torchrun")], ids=["direct", "torchrun"])
def test_a_script_that_job_writes_has_no_finding(name: str, launcher: tuple[str, ...]) -> None:
    demand = DEMANDS[name]._replace(one_task=bool(launcher))
    binds = ",".join(str(each.path) for each in lumi().binds)
    entry = ["lumi-entry", *launcher, "train.py"]
    body = BODY._replace(binds=binds, command=entry, has_mpi=True)
    assert judged("\n".join(lines(demand, body=body)).encode(), IMAGE) == []
