"""Judge the ``#SBATCH`` lines of a script: sbatch refuses or ignores them, or they say too much."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lumicontainer.errors import nearest
from lumicontainer.jobs.lint.job import (
    BatchJob,
    Edit,
    Hit,
    is_unlimited,
    read_minutes,
    read_size,
)
from lumicontainer.jobs.lint.reading.model import OptionUse, Span
from lumicontainer.jobs.lint.reading.options import SBATCH
from lumicontainer.jobs.scripts.times import time_words
from lumicontainer.system.units import size

_NEARLY = re.compile(rb"(?m)^(#[ \t]*([A-Za-z]{5,8}))(?=[ \t]+-{1,2}[A-Za-z])")
_LETTERS = sorted("SBATCH")
_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_UNIQUE = ("nodes", "ntasks", "ntasks-per-node", "time", "partition", "account", "mem", "output")


def _shebang_missing(job: BatchJob) -> Iterator[Hit]:
    data = job.script.data
    if job.is_batch and not data.startswith(b"#!"):
        first = data.lstrip(b"\xef\xbb\xbf \t\r\n")
        stray = Span(0, len(data) - len(first))
        text = "" if first.startswith(b"#!") else "#!/bin/bash\n"
        yield Hit(Span(0, 0), edits=(Edit(stray, text),))


def _line_ends(job: BatchJob) -> Iterator[Hit]:
    data = job.script.data
    first = data.find(b"\r\n")
    if first >= 0:
        places = (match.start() for match in re.finditer(rb"\r\n", data))
        yield Hit(Span(first, first + 1), edits=tuple(Edit(Span(p, p + 1), "") for p in places))


def _late(job: BatchJob) -> Iterator[Hit]:
    yield from (Hit(span) for span in job.script.sbatch.late)


def _misspelled(job: BatchJob) -> Iterator[Hit]:
    for match in _NEARLY.finditer(job.script.data, 0, job.script.sbatch.end):
        word = match[2].decode()
        spaced = match[1] != b"#" + match[2]
        if match[1] == b"#SBATCH" or (not spaced and not _is_nearly(word)):
            continue
        if spaced and word.upper() != "SBATCH":
            continue
        span = Span(*match.span(1))
        # A blank is also how people switch a line off.
        edits = () if spaced else (Edit(span, "#SBATCH"),)
        yield Hit(span, {"word": match[1].decode()}, edits)


def _is_nearly(word: str) -> bool:
    return sorted(word.upper()) == _LETTERS or bool(nearest(word, ["SBATCH"]))


def _unknown_option(job: BatchJob) -> Iterator[Hit]:
    for option in job.script.directives:
        raw = job.script.text(option.span)
        if option.name in SBATCH.names or not raw.startswith("--"):
            continue
        if any(each.startswith(option.name) for each in SBATCH.names):
            continue
        near = nearest(option.name, SBATCH.names)
        begin = option.span.start + 2
        span = Span(begin, begin + len(option.name.encode()))
        fits = near and job.is_literal(span, option.name)
        edits = (Edit(span, near),) if fits else ()
        hint = f"write --{near}" if near else "sbatch --help lists the options"
        yield Hit(option.span, {"option": option.name, "advice": hint}, edits)


def _twice(job: BatchJob) -> Iterator[Hit]:
    seen: dict[str, OptionUse] = {}
    for option in job.script.directives:
        before = seen.get(option.name)
        if before and option.name in _UNIQUE and before.text != option.text:
            facts = {"option": option.name, "first": before.text, "last": option.text}
            yield Hit(option.span, facts)
        seen[option.name] = option


def _variable(job: BatchJob) -> Iterator[Hit]:
    for option in job.script.directives:
        if option.value and re.search(r"\$\{?[A-Za-z_]|\$\(", option.value.raw):
            yield Hit(option.value.span, {"value": option.value.raw})


def _stray_word(job: BatchJob) -> Iterator[Hit]:
    for word in job.script.sbatch.strays:
        yield Hit(word.span, {"word": word.raw})


def _unmatched_quote(job: BatchJob) -> Iterator[Hit]:
    yield from (Hit(span) for span in job.script.sbatch.unmatched)


def _memory_twice(job: BatchJob) -> Iterator[Hit]:
    options = [each for each in job.script.directives if each.name in _MEMORY]
    if len({each.name for each in options}) > 1:
        names = " and ".join(f"--{each}" for each in dict.fromkeys(each.name for each in options))
        yield Hit(options[-1].span, {"options": names})


def _partition(job: BatchJob) -> Iterator[Hit]:
    option, rows = job.option("partition"), job.platform.slurm.partitions
    if option is None or not rows or job.partition or not option.text or "," in option.text:
        return
    names = [str(each.name) for each in rows]
    near = nearest(option.text, names)
    advice = f"did you mean {near}?" if near else f"known: {', '.join(names)}"
    edits = (Edit(option.value.span, near),) if near and option.value else ()
    facts = {"name": option.text, "platform": job.platform.name, "advice": advice}
    yield Hit(option.span, facts, edits)


def _time_limit(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.option("time"), job.partition
    if option and partition and job.minutes and job.minutes > partition.max_time:
        longest = time_words(partition.max_time)
        facts = {"time": option.text, "longest": longest, "partition": partition.name}
        yield Hit(option.span, facts)


def _time_form(job: BatchJob) -> Iterator[Hit]:
    option = job.option("time")
    if (
        option
        and option.text
        and not is_unlimited(option.text)
        and read_minutes(option.text) is None
    ):
        yield Hit(option.span, {"time": option.text})


def _nodes(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.option("nodes"), job.partition
    if option and partition and job.nodes and job.nodes > partition.max_nodes:
        facts = {"nodes": job.nodes, "most": partition.max_nodes, "partition": partition.name}
        yield Hit(option.span, facts)


def _gpus(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.gpu_option, job.partition
    most = partition.gpus if partition else len(job.platform.gpus)
    if option and job.gpus and (partition or most) and job.gpus > most:
        yield Hit(option.span, {"gpus": job.gpus, "most": most})


def _memory(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.memory_option, job.partition
    if option and partition and job.memory and job.memory > partition.memory:
        facts = {"memory": size(job.memory), "most": size(partition.memory)}
        yield Hit(option.span, {**facts, "partition": partition.name})


def _memory_form(job: BatchJob) -> Iterator[Hit]:
    option = job.memory_option
    if option and option.text and read_size(option.text) is None:
        yield Hit(option.span, {"memory": option.text})


def _cores(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.option("cpus-per-task"), job.partition
    if not (option and partition and job.cores):
        return
    hint = job.option("threads-per-core", "hint")
    most = partition.cores * (2 if hint and hint.text in ("2", "multithread") else 1)
    if job.cores > most:
        each = max(1, most // (job.tasks_per_node or 1))
        literal = option.value and job.is_literal(option.value.span, option.text)
        edits = (Edit(option.value.span, str(each)),) if literal and option.value else ()
        facts = {"cores": job.cores, "most": most, "each": each, "partition": partition.name}
        yield Hit(option.span, facts, edits)


def _no_gpus(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.option("partition"), job.partition
    if option and partition and partition.gpus and job.gpus == 0:
        yield Hit(option.span, {"partition": partition.name, "gpus": partition.gpus})


def _tasks(job: BatchJob) -> Iterator[Hit]:
    option, each = job.option("ntasks"), job.number("ntasks-per-node")
    if (
        option
        and option.number
        and each
        and job.option("nodes")
        and job.nodes
        and option.number > job.nodes * each
    ):
        facts = {"tasks": option.number, "nodes": job.nodes, "each": each}
        yield Hit(option.span, facts)


def _array_output(job: BatchJob) -> Iterator[Hit]:
    option = job.option("output")
    if (
        job.option("array")
        and option
        and option.text
        and not re.search("%[aAjJ]", option.text)
        and not option.text.startswith("/dev/")
    ):
        yield Hit(option.span, {"output": option.text})


def _log_folder(job: BatchJob) -> Iterator[Hit]:
    moved = job.option("chdir")
    for name in ("output", "error"):
        option = job.option(name)
        folder = Path(option.text).parent if option and option.text else Path()
        if option is None or not folder.name or "%" in str(folder) or (moved and not moved.text):
            continue
        # Another machine's folders say nothing here.
        root = Path(*folder.parts[:2]) if folder.is_absolute() else Path()
        places = (base / (moved.text if moved else "") / folder for base in _bases(job))
        if root.is_dir() and not any(each.is_dir() for each in places):
            yield Hit(option.span, {"folder": str(folder)})


def _bases(job: BatchJob) -> Iterator[Path]:
    """Yield the folders from which the script may be sent."""
    yield Path()
    yield from Path(job.script.file).absolute().parents


def _signal(job: BatchJob) -> Iterator[Hit]:
    option = job.option("signal")
    match = re.match(r"(?:R?B:)(?:SIG)?(\w+)", option.text) if option else None
    if (
        option
        and match
        and not any(
            each.text.removeprefix("SIG") == match[1]
            for command in job.script.calls("trap")
            for each in command.words[1:]
        )
    ) and (job.script.is_closed or not any(job.script.calls("source", "."))):
        yield Hit(option.span, {"signal": match[1]})


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "shebang-missing": _shebang_missing,
    "dos-line-ends": _line_ends,
    "sbatch-after-command": _late,
    "sbatch-misspelled": _misspelled,
    "sbatch-unknown-option": _unknown_option,
    "sbatch-option-twice": _twice,
    "sbatch-variable": _variable,
    "sbatch-stray-word": _stray_word,
    "sbatch-unmatched-quote": _unmatched_quote,
    "memory-options": _memory_twice,
    "memory-form": _memory_form,
    "memory-above-node": _memory,
    "partition-unknown": _partition,
    "time-above-limit": _time_limit,
    "time-form": _time_form,
    "nodes-above-limit": _nodes,
    "gpus-above-node": _gpus,
    "cores-above-node": _cores,
    "no-gpus": _no_gpus,
    "tasks-above-nodes": _tasks,
    "array-output": _array_output,
    "log-folder": _log_folder,
    "signal-without-trap": _signal,
}
