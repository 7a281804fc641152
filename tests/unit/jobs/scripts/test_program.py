"""The program of a job is judged by its words: who starts its ranks, and how many."""

import pytest

from lumicontainer.jobs.scripts.program import (
    full_command,
    launcher_of,
    log_folder,
    program_faults,
    script_of,
    with_count,
)


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("lumi-entry --log-dir my-logs train.py", "my-logs"),
        ("lumi-entry --launcher torchrun --log-dir=/logs -m train", "/logs"),
        ("lumi-entry train.py --log-dir of-the-program", "."),
        ("train --log-dir of-another-program", "."),
        ("lumi-entry --log-dir", "."),
    ],
)
def test_the_logs_of_ranks_are_where_lumi_entry_writes_them(command: str, folder: str) -> None:
    assert log_folder(command.split()) == folder


@pytest.mark.parametrize(
    ("command", "launcher", "expected"),
    [
        ("train.py -x", "", "lumi-entry train.py -x"),
        ("-m train", "", "lumi-entry -m train"),
        ("lumi-entry --preflight a.py", "", "lumi-entry --preflight a.py"),
        ("python a.py", "", "python a.py"),
        ("a.py", "torchrun", "lumi-entry --launcher torchrun --nproc 4 a.py"),
        ("lumi-entry a.py", "accelerate", "lumi-entry --launcher accelerate --nproc 4 a.py"),
        ("lumi-entry --nproc 2 a.py", "torchrun", "lumi-entry --launcher torchrun --nproc 2 a.py"),
    ],
)
def test_lumi_entry_starts_python_programs(command: str, launcher: str, expected: str) -> None:
    assert " ".join(with_count(full_command(command.split(), launcher), 4)) == expected


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("lumi-entry --launcher torchrun a.py", "torchrun"),
        ("lumi-entry --launcher=deepspeed a.py", "deepspeed"),
        ("lumi-entry -m torch.distributed.run --nproc-per-node 2 a.py", "torch.distributed.run"),
        ("/opt/bin/torchrun a.py", "torchrun"),
        ("accelerate launch a.py", "accelerate"),
        ("lumi-entry a.py --launcher torchrun", ""),
        ("lumi-entry a.py -m torch.distributed.run", ""),
        ("demo", ""),
    ],
)
def test_a_launcher_is_known_by_the_words_before_the_program(command: str, launcher: str) -> None:
    assert launcher_of(command.split()) == launcher


@pytest.mark.parametrize(
    ("command", "launcher", "words"),
    [
        ("bash a.sh", "torchrun", "torchrun starts Python programs, not 'bash'"),
        ("lumi-entry --launcher direct a.py", "torchrun", "two launchers"),
        ("torchrun --nproc_per_node=16 a.py", "", "16 ranks of a node have 8 GPUs"),
        ("lumi-entry --launcher torchrun --nproc 9 a.py", "", "9 ranks of a node have 8 GPUs"),
        ("deepspeed --num_gpus 12 a.py", "", "12 ranks of a node have 8 GPUs"),
        ("torchrun --nproc-per-node 8 a.py --nproc 99", "", ""),
        ("torchrun --nproc-per-node auto a.py", "", ""),
        ("lumi-entry --allow-gpu-sharing --launcher torchrun --nproc 9 a.py", "", ""),
        ("lumi-entry a.py --nproc 99", "", ""),
    ],
)
def test_more_ranks_than_gpus_are_refused(command: str, launcher: str, words: str) -> None:
    faults = [each.what for each in program_faults(command.split(), launcher, 8)]
    assert words in "".join(faults)
    assert bool(faults) == bool(words)


def test_the_script_of_a_command_is_found_by_its_name() -> None:
    assert script_of(["lumi-entry", "--log-dir", "logs", "a.py", "b.py"]) == "a.py"
    assert script_of(["lumi-entry", "/opt/a.py"]) == ""
    assert script_of(["demo"]) == ""
