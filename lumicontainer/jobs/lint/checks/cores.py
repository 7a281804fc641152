"""Judge how GPUs and cores are given to tasks."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from lumicontainer.inside.node.cpulist import parse_cpus
from lumicontainer.jobs.lint.checks.programs import runs_python
from lumicontainer.jobs.lint.job import BatchJob, Edit, Hit
from lumicontainer.jobs.lint.reading.model import OptionUse, Span, Start, StartedProgram

_BOUND = re.compile(r"((?:verbose,|v,|quiet,|q,)*)(mask_cpu|map_cpu)[:=](.+)")
_SHARING = "allow-task-sharing"
_BINDERS = ("taskset", "numactl", "hwloc-bind", "likwid-pin")


def _own_gpus(option_name: str) -> Callable[[BatchJob], Iterator[Hit]]:

    def check(job: BatchJob) -> Iterator[Hit]:
        flags = job.option("gres-flags")
        for part, option in _options(job, option_name):
            # One task of a node sees all that it asks for.
            if _tasks_of(job, part) == 1:
                continue
            own = part.option("gres-flags") if part else flags
            if any(each and _SHARING in each.text for each in (own, flags)):
                continue
            yield Hit(option.span, {"value": option.text or "N"}, _per_node(job, part, option))

    return check


def _tasks_of(job: BatchJob, part: StartedProgram | None) -> int | None:
    starts = (each for each in job.script.starts if part and part in each.parts)
    start = next(starts, None)
    return job.tasks_on_node(start) if start else job.tasks_per_node


def _options(job: BatchJob, name: str) -> Iterator[tuple[StartedProgram | None, OptionUse]]:
    """Yield the options of a name of the job and of its steps, with the step."""
    directives = [each for each in job.script.directives if each.name == name]
    yield from ((None, each) for each in directives)
    for start in job.script.starts:
        for part in start.parts:
            if part.kind == "srun":
                yield from ((part, each) for each in part.options if each.name == name)


def _per_node(job: BatchJob, part: StartedProgram | None, option: OptionUse) -> tuple[Edit, ...]:
    tasks = job.tasks_per_node
    if part or option.name != "gpus-per-task" or not (option.number and tasks):
        return ()
    many = option.number * tasks
    if job.platform.gpus and many > len(job.platform.gpus):
        return ()
    return (Edit(option.span, f"--gpus-per-node={many}"),)


def _gpu_bind(job: BatchJob) -> Iterator[Hit]:
    for _, option in _options(job, "gpu-bind"):
        if option.text and not re.match(r"(?:verbose,|v,)?none", option.text):
            yield Hit(option.span, {"value": option.text})


def _not_bound(job: BatchJob) -> Iterator[Hit]:
    seen: set[Span] = set()
    whole = len(job.platform.gpus)
    for start in job.script.starts:
        srun = start.srun
        if srun is None or srun.word.span in seen or not whole or job.gpus != whole:
            continue
        ranks = runs_python(start) and job.tasks_on_node(start) != 1
        if _is_bound(job, start) or not (ranks or start.launcher):
            continue
        seen.add(srun.word.span)
        yield Hit(srun.word.span, {"gpus": whole}, _mask_edit(job, start, srun))


def _is_bound(job: BatchJob, start: Start) -> bool:
    srun = start.srun
    if start.entry or srun is None or not srun.lacks("cpu-bind"):
        return True
    if start.launcher and start.launcher.option("numa-binding"):
        return True
    if any(job.script.exports("SLURM_CPU_BIND")):
        return True
    words = start.command.words
    outer = start.command.context.start
    wrapped = any(each.text in _BINDERS for each in words)
    return wrapped or bool(outer and any(each.text in _BINDERS for each in outer.command.words))


def _mask_edit(job: BatchJob, start: Start, srun: StartedProgram) -> tuple[Edit, ...]:
    if start.launcher or job.tasks_on_node(start) != len(job.masks):
        return ()
    return (
        job.insert_option(srun, f"--cpu-bind={_masks(job)}") if srun.lacks("cpus-per-task") else ()
    )


def _masks(job: BatchJob) -> str:
    return "mask_cpu:" + ",".join(f"0x{each:x}" for each in job.masks)


def _cpus_lost(job: BatchJob) -> Iterator[Hit]:
    cores = job.number("cpus-per-task")
    if not cores or cores < 2 or any(job.script.exports("SRUN_CPUS_PER_TASK")):
        return
    for start in job.script.starts:
        srun = next((each for each in start.parts if each.kind == "srun"), None)
        if srun is None or not srun.lacks("cpus-per-task", "cpu-bind", "cpus-per-gpu", "exact"):
            continue
        if not (start.engine or start.launcher or start.entry or runs_python(start)):
            continue
        if start.entry and job.gpus == len(job.platform.gpus) and job.gpus:
            continue
        masked = any(_mask_edit(job, each, srun) for each in _within(job, start))
        value = '"$SLURM_CPUS_PER_TASK"' if start.command.context.editable else ""
        option = f"--cpus-per-task={value or cores}"
        edits = () if masked else job.insert_option(srun, option)
        yield Hit(srun.word.span, {"cores": cores}, edits)


def _within(job: BatchJob, start: Start) -> Iterator[Start]:
    """Yield the programs that the masks of a step would bind."""
    for each in job.script.starts:
        if (
            start in (each, each.command.context.start)
            and (not _is_bound(job, each) and (runs_python(each) or each.launcher))
        ) and job.gpus == len(job.platform.gpus):
            yield each


def _cpus_and_masks(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        srun = next((each for each in start.parts if each.kind == "srun"), None)
        bind, cpus = (
            (srun.option("cpu-bind"), srun.option("cpus-per-task")) if srun else (None, None)
        )
        if bind and cpus and _BOUND.fullmatch(bind.text):
            yield Hit(cpus.span, {"bind": re.split("[:=]", bind.text)[0]})


def _bindings(job: BatchJob) -> Iterator[tuple[Start, OptionUse, Sequence[int]]]:
    """Yield the cores that each task of a step gets, as masks."""
    for start in job.script.starts:
        srun = next((each for each in start.parts if each.kind == "srun"), None)
        option = srun.option("cpu-bind") if srun else None
        match = _BOUND.fullmatch(option.text) if option else None
        if option and match and (masks := _read_masks(match[2], match[3])):
            yield start, option, masks


def _read_masks(kind: str, text: str) -> Sequence[int]:
    try:
        if kind == "mask_cpu":
            return [int(each, 16) for each in text.split(",")]
        return [1 << min(int(each), 1023) for each in text.split(",")]
    except ValueError:
        return ()


def _reserved(job: BatchJob) -> Iterator[Hit]:
    own = {core for each in job.platform.gpus for core in parse_cpus(each.reserved)}
    for _, option, masks in _bindings(job):
        wrong = sorted(core for core in own if any(mask >> core & 1 for mask in masks))
        if wrong:
            cores = ", ".join(map(str, wrong))
            yield Hit(option.span, {"cores": cores}, _replaced(job, option, masks))


def _overlapping(job: BatchJob) -> Iterator[Hit]:
    for _, option, masks in _bindings(job):
        first = next(
            ((a, b) for a in range(len(masks)) for b in range(a) if masks[a] & masks[b]), None
        )
        if first:
            facts = {"first": first[1], "second": first[0]}
            yield Hit(option.span, facts, _replaced(job, option, masks))


def _order(job: BatchJob) -> Iterator[Hit]:
    for start, option, masks in _bindings(job):
        if len(masks) != len(job.masks) or start.entry or _chooses_gpus(job, start):
            continue
        owners = [
            next((index for index, own in enumerate(job.masks) if mask & own == mask), None)
            for mask in masks
        ]
        wrong = [rank for rank, owner in enumerate(owners) if owner is not None and owner != rank]
        if wrong and None not in owners and len(set(owners)) == len(owners):
            rank = wrong[0]
            facts = {"rank": rank, "gpu": owners[rank], "pci": job.platform.gpus[rank].pci}
            yield Hit(option.span, facts, _replaced(job, option, masks))


def _chooses_gpus(job: BatchJob, start: Start) -> bool:
    """Return whether the step may give ranks their GPUs in another order."""
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    own = [each for each in job.script.settings if each.name in names and each.context.in_step]
    if any(each.value.raw.replace("\\", "") not in _LOCAL for each in own):
        return True
    # A script of the user's between srun and the program may choose as well.
    words = [each.text for each in start.command.words]
    scripts = (each for each in words if each.endswith((".sh", "select_gpu", "/select_gpu")))
    return not own and next(scripts, None) is not None


_LOCAL = ("$SLURM_LOCALID", "${SLURM_LOCALID}", '"$SLURM_LOCALID"', '"${SLURM_LOCALID}"')


def _replaced(job: BatchJob, option: OptionUse, masks: Sequence[int]) -> tuple[Edit, ...]:
    """Return the edit that writes the masks of the GPUs' cores, if the list stands in full."""
    value = option.value
    if value is None or len(masks) != len(job.masks):
        return ()
    text = job.script.text(value.span)
    match = _BOUND.fullmatch(text)
    if match is None or text != option.text:
        return ()
    return (Edit(value.span, match[1] + _masks(job)),)


def _on_shared_node(job: BatchJob) -> Iterator[Hit]:
    for _, option, _ in _bindings(job):
        if job.gpus and job.gpus < len(job.platform.gpus) and not job.is_exclusive:
            yield Hit(option.span, {"gpus": job.gpus})


def _count(job: BatchJob) -> Iterator[Hit]:
    for start, option, masks in _bindings(job):
        tasks = job.tasks_on_node(start)
        if tasks and tasks > len(masks) > 1:
            yield Hit(option.span, {"masks": len(masks), "tasks": tasks})


def _threads(job: BatchJob) -> Iterator[Hit]:
    cores = job.number("cpus-per-task")
    share = job.platform.slurm.share.cores
    whole = job.tasks_per_node == len(job.platform.gpus) and bool(job.platform.gpus)
    most = cores or (share if whole else 0)
    for setting in job.script.exports("OMP_NUM_THREADS"):
        text = setting.value.text
        if most and text.isdecimal() and int(text) > most:
            yield Hit(
                setting.span,
                {"threads": text, "cores": most},
                _value_edit(job, setting.value.span, text, most),
            )


def _value_edit(job: BatchJob, span: Span, text: str, value: int) -> tuple[Edit, ...]:
    return (Edit(span, str(value)),) if job.is_literal(span, text) else ()


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "gpus-per-task": _own_gpus("gpus-per-task"),
    "ntasks-per-gpu": _own_gpus("ntasks-per-gpu"),
    "gpu-bind": _gpu_bind,
    "cores-not-bound": _not_bound,
    "cpus-per-task-lost": _cpus_lost,
    "cpus-per-task-with-masks": _cpus_and_masks,
    "mask-of-reserved-cores": _reserved,
    "masks-overlap": _overlapping,
    "mask-order": _order,
    "masks-on-shared-node": _on_shared_node,
    "mask-count": _count,
    "too-many-threads": _threads,
}
