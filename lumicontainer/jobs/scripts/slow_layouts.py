"""Warn of layouts of large models that are known to be slow, by the options of their programs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lumicontainer.errors import Problem
from lumicontainer.jobs.scripts.layout import NodeLayout

_BLOG = (
    "LUMI, 'Scaling the pre-training of large language models of >100B parameters to thousands of"
    " AMD MI250X GPUs on LUMI'"
)
_PAPER = "Narayanan et al., 'Efficient Large-Scale Language Model Training …', SC21"
_MEGATRON = "Megatron-LM, megatron/core/parallel_state.py"
_PER_GPU, _MULTIPLE, _BUBBLE = 1280, 1024, 0.2
"""The hidden size for each GPU, its best divisor, and the share of time that may be idle."""
CONFIGURATIONS = ("--deepspeed_config", "--deepspeed-config", "--deepspeed")
"""The options of programs that name a configuration of DeepSpeed."""


class Shape(NamedTuple):
    """Hold how a program divides a model; 0 if it does not say."""

    hidden: int = 0
    tensor: int = 1
    pipeline: int = 1
    batch: int = 0
    """The samples of a step on all GPUs."""
    micro: int = 0
    """The samples that a GPU computes at once."""
    interleaved: bool = False


_NUMBER = re.compile(r"(?a)[1-9]\d{0,8}")
_OPTIONS = {
    "--hidden-size": "hidden",
    "--tensor-model-parallel-size": "tensor",
    "--pipeline-model-parallel-size": "pipeline",
    "--global-batch-size": "batch",
    "--micro-batch-size": "micro",
}
"""Options of Megatron and Megatron-DeepSpeed."""
_KEYS = {"train_batch_size": "batch", "train_micro_batch_size_per_gpu": "micro"}
"""DeepSpeed's keys."""


def shape_of(words: Sequence[str], configuration: Mapping[str, Any]) -> Shape:
    """Return the shape that the options of a program and its configuration of DeepSpeed name."""
    values = {
        field: value
        for key, field in _KEYS.items()
        if type(value := configuration.get(key)) is int and value > 0
    }
    for option, value in option_pairs(words):
        if option in _OPTIONS and _NUMBER.fullmatch(value):
            values[_OPTIONS[option]] = int(value)
    virtual = any("virtual-pipeline" in option for option, _ in option_pairs(words))
    return Shape(**values, interleaved=virtual)


def option_pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command, each with the text behind it."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        yield option, value if equals else following


def slow_layouts(shape: Shape, layout: NodeLayout) -> Iterator[Problem]:
    """Yield a warning for each reason why a model of this shape is slow in a job."""
    ranks, model = layout.nodes * layout.gpus, shape.tensor * shape.pipeline
    if not ranks:
        return
    yield from _widths(shape)
    if shape.tensor > layout.gpus:
        what = f"tensor parallelism of {shape.tensor} leaves the node, which has {layout.gpus} GPUs"
        yield _warning(
            what, "each layer waits for the network", _PAPER, "--tensor-model-parallel-size"
        )
    if ranks % model:
        what = f"{ranks} ranks are not a multiple of {model}, the GPUs of one copy of the model"
        yield _warning(what, "Megatron stops when it starts", _MEGATRON, "--nodes")
        return
    yield from _batches(shape, ranks // model)


def _widths(shape: Shape) -> Iterator[Problem]:
    if shape.hidden and shape.tensor > 1 and shape.hidden < _PER_GPU * shape.tensor:
        each = shape.hidden // shape.tensor
        what = f"each GPU has {each} of the hidden size {shape.hidden}, less than {_PER_GPU}"
        why = "its matrices are too small for the GPU"
        yield _warning(what, why, _BLOG, "--tensor-model-parallel-size")
    if shape.hidden % _MULTIPLE:
        what = f"the hidden size {shape.hidden} is not a multiple of {_MULTIPLE}"
        yield _warning(what, "other sizes use the GPU's matrix cores less", _BLOG, "--hidden-size")


def _batches(shape: Shape, copies: int) -> Iterator[Problem]:
    if not shape.batch:
        return
    if copies > shape.batch:
        what = f"{copies} copies of the model share a batch of {shape.batch}"
        why = "some get no sample: data parallelism ends at the batch"
        yield _warning(what, why, _PAPER, "--global-batch-size")
        return
    steps = shape.batch // (copies * max(1, shape.micro))
    idle = (shape.pipeline - 1) / max(1, steps)
    if idle > _BUBBLE and not shape.interleaved:
        what = f"the pipeline's bubble is {idle:.0%} of the time that a step computes"
        why = f"{shape.pipeline} stages share {steps} micro-batches: (stages - 1) / micro-batches"
        yield _warning(what, why, _PAPER, "--global-batch-size")


def _warning(what: str, why: str, source: str, where: str) -> Problem:
    return Problem(what, where, f"{why} ({source})", level="warning")
