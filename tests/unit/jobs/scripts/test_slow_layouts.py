"""Layouts of large models that are known to be slow cause a warning with its source."""

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import Problem
from lumicontainer.jobs.scripts.layout import Demand, lay_out
from lumicontainer.jobs.scripts.slow_layouts import shape_of, slow_layouts

LUMI = open_catalog().platform("lumi-g")
GOOD = (
    "lumi-entry pretrain_gpt.py --hidden-size 10240 --tensor-model-parallel-size 8"
    " --pipeline-model-parallel-size=8 --global-batch-size 1536 --micro-batch-size 1"
)
"""A model as in LUMI's runs with 140B parameters."""


def slow(command: str, nodes: int = 48, **configuration: object) -> list[Problem]:
    layout = lay_out(LUMI, Demand(nodes=nodes), [])
    return [*slow_layouts(shape_of(command.split(), configuration), layout)]


def warnings(command: str, nodes: int = 48, **configuration: object) -> list[str]:
    return [f"{each.level}: {each.what}" for each in slow(command, nodes, **configuration)]


def test_the_shape_of_lumi_s_own_run_is_not_slow() -> None:
    assert warnings(GOOD) == []


SLOW = [
    ("10240", "8192", "each GPU has 1024 of the hidden size 8192, less than 1280", "of >100B"),
    ("10240", "10752", "the hidden size 10752 is not a multiple of 1024", "of >100B"),
    ("size 8 ", "size 16 ", "tensor parallelism of 16 leaves the node, which has 8 GPUs", "SC21"),
    ("size=8", "size=7", "384 ranks are not a multiple of 56", "Megatron-LM"),
    ("1536", "4", "6 copies of the model share a batch of 4", "SC21"),
    ("1536", "96", "the pipeline's bubble is 44% of the time", "SC21"),
]
"""Parts of the command, what takes their place, the warning, and its source."""


@pytest.mark.parametrize(("old", "new", "words", "source"), SLOW)
def test_a_slow_layout_causes_a_warning_with_its_source(
    old: str, new: str, words: str, source: str
) -> None:
    warnings = slow(GOOD.replace(old, new))
    (warning,) = (each for each in warnings if each.what.startswith(words))
    assert warning.level == "warning"
    assert source in warning.why


def test_a_configuration_of_deepspeed_names_the_batch() -> None:
    command = "lumi-entry train.py --deepspeed_config ds.json"
    assert warnings(command, nodes=2, train_batch_size=8) == [
        "warning: 16 copies of the model share a batch of 8"
    ]
    assert warnings(command, nodes=2, train_batch_size="auto") == []


def test_an_interleaved_pipeline_and_other_programs_cause_no_warning() -> None:
    virtual = f"{GOOD} --num-layers-per-virtual-pipeline-stage 2"
    assert warnings(virtual.replace("1536", "96")) == []
    assert warnings("lumi-entry train.py --hidden-size x --global-batch-size 0") == []
    assert warnings(f"lumi-entry train.py --hidden-size {'9' * 5000}") == []
