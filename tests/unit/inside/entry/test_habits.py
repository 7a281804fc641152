"""Words of other launchers lead to lumi-entry's words."""

import pytest

from lumicontainer.inside.entry.habits import option_hint, program_hint
from lumicontainer.inside.rank.context import NODE_LAUNCHERS


@pytest.mark.parametrize(
    ("option", "value", "part"),
    [
        ("--nproc_per_node", "8", "--nproc 8"),
        ("--num-processes", "", "--nproc N"),
        ("-np", "train.py", "--nproc N"),
        ("--master_port", "29500", "leave it out"),
        ("--max_restarts", "3", "--launcher-args '--max_restarts 3'"),
    ],
)
def test_an_option_of_another_launcher_has_a_hint(option: str, value: str, part: str) -> None:
    assert part in option_hint(option, value)


def test_an_option_of_nobody_has_none() -> None:
    assert option_hint("--colour", "red") == ""


@pytest.mark.parametrize("launcher", NODE_LAUNCHERS)
def test_the_command_of_a_launcher_becomes_an_option(launcher: str) -> None:
    words = [f"/opt/venv/bin/{launcher}", "--nproc_per_node=4", "train.py", "--epochs", "3"]
    assert (
        program_hint(words, {}) == f"lumi-entry --launcher {launcher} --nproc 4 train.py --epochs 3"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["python3", "train.py"], "lumi-entry train.py"),
        (["python", "-m", "mine.train"], "lumi-entry -m mine.train"),
        (["srun", "-n", "8", "python", "train.py"], "srun … lumi-entry train.py"),
        (["no-such-program"], ""),
    ],
)
def test_a_command_in_place_of_a_script_is_shown_as_lumi_entry_takes_it(
    words: list[str], hint: str
) -> None:
    shown = program_hint(words, {"PATH": "/nowhere"})
    assert shown.endswith(hint) and bool(shown) == bool(hint)
