"""Lint and ShellCheck find nothing in the scripts that ``job`` writes, whatever the options."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from lumicontainer.jobs.lint.lint import judge_script
from lumicontainer.jobs.scripts import program
from lumicontainer.jobs.scripts.batch import Body, JobHeader, batch_options, batch_script
from lumicontainer.jobs.scripts.chain import Chain, shell_pattern
from lumicontainer.jobs.scripts.layout import Demand, lay_out

from ....lint_cases import lumi

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
DEMANDS = (
    Demand(),
    Demand(nodes=2),
    Demand(nodes=2, tasks=1, one_task=True),
    Demand(gpus=1),
    Demand(gpus=2, nodes=2),
    Demand(gpus=4, one_task=True),
    Demand(gpus=2, memory=100 << 30),
    Demand(partition="small-g"),
    Demand(partition="small", nodes=1),
)
HEADERS = (
    JobHeader("x", account="project_465000001", minutes=60),
    JobHeader("x", 60, "", "project_465000001", "0-7%2", "afterok:1234", "a %x-%j.out"),
)
CHECKPOINT = "it's `id` $HOME/*"
CHAINS = (None, Chain(shell_pattern(CHECKPOINT), 0), Chain("/scratch/p/ck", 2))
COMMANDS = (("train.py", "it's", "$HOME", "a\nb"), ("-m", "my.module"), ("sh", "-c", "echo $HOME"))


def written_scripts() -> Iterator[tuple[str, object]]:
    """Yield a script for each combination of options, and what decides its commands."""
    rows = product(DEMANDS, HEADERS, CHAINS, COMMANDS, (False, True))
    for demand, header, chain, command, has_mpi in rows:
        if (chain and header.array) or (demand.one_task and command[0] == "sh"):
            continue
        launcher = "torchrun" if demand.one_task else ""
        problems: list[object] = []
        layout = lay_out(lumi(), demand, problems)  # type: ignore[arg-type]
        assert problems == []
        words = program.with_count(program.full_command(command, launcher), layout.gpus)
        engine = ["singularity", "exec", "/scratch/p/an image.sif"]
        body = Body("/pfs,/scratch", engine, words, has_mpi, chain)
        options = batch_options(layout, header._replace(chained=bool(chain)))
        yield (
            batch_script(lumi().slurm, layout, options, body),
            (bool(layout.cores), chain, command),
        )


@pytest.mark.slow
def test_no_written_script_has_a_fault(tmp_path: Path) -> None:
    different = dict[object, Path]()
    for number, (text, commands) in enumerate(written_scripts()):
        findings = judge_script("job.sh", text.encode(), lumi())
        assert [(each.rule, str(each.place)) for each in findings] == [], text
        if commands not in different:
            different[commands] = tmp_path / f"{number}.sh"
            different[commands].write_text(text)
    assert number > 150
    command = [SHELLCHECK, "--severity=warning", *different.values()]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
