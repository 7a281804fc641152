"""Judge what a job pays for and does not use."""

from collections.abc import Callable, Iterator, Mapping

from lumicontainer.jobs.lint.checks.programs import runs_python, uses_gpus
from lumicontainer.jobs.lint.job import BatchJob, Hit
from lumicontainer.system.units import count, size


def _part_of_whole_node(job: BatchJob) -> Iterator[Hit]:
    option, partition = job.gpu_option, job.partition
    if not (option and partition and job.is_exclusive and job.gpus):
        return
    if job.gpus < partition.gpus:
        shared = job.shared_partition
        paid = job.hourly_cost(gpus=partition.gpus)
        used = job.hourly_cost(gpus=job.gpus) if not partition.exclusive else None
        name = shared.name if shared else "a shared partition"
        advice = f"#SBATCH --partition={name}"
        if not partition.exclusive:
            advice = "leave --exclusive out"
        facts = {
            "gpus": job.gpus,
            "billed": partition.gpus,
            "factor": f"{partition.gpus / job.gpus:.1f}".removesuffix(".0"),
            "partition": partition.name,
            "cost": paid or used or "a whole node",
            "advice": advice,
        }
        yield Hit(option.span, facts)


def _memory(job: BatchJob) -> Iterator[Hit]:
    option = job.memory_option
    memory = job.memory
    if memory == 0 and job.partition:
        memory = job.partition.memory
    if not (option and memory and job.gpus and not job.is_exclusive):
        return
    share = job.platform.slurm.share
    own, with_memory = job.hourly_cost(gpus=job.gpus), job.hourly_cost(gpus=job.gpus, memory=memory)
    if own and with_memory and with_memory.amount > own.amount:
        best = share.memory * job.gpus
        facts = {"memory": size(memory), "count": count(job.gpus, "GPU")}
        yield Hit(
            option.span, {**facts, "cost": with_memory, "own": own, "option": f"{best >> 30}G"}
        )


def _cores(job: BatchJob) -> Iterator[Hit]:
    option = job.option("cpus-per-task", "cpus-per-gpu")
    if not (option and job.cores and job.gpus and not job.is_exclusive):
        return
    own, with_cores = (
        job.hourly_cost(gpus=job.gpus),
        job.hourly_cost(gpus=job.gpus, cores=job.cores),
    )
    if own and with_cores and with_cores.amount > own.amount:
        best = job.platform.slurm.share.cores * job.gpus
        facts = {"cores": job.cores, "count": count(job.gpus, "GPU"), "share": best}
        yield Hit(option.span, {**facts, "cost": with_cores, "own": own})


def _idle(job: BatchJob) -> Iterator[Hit]:
    """Find programs of fewer ranks than GPUs; lumi-entry and launchers start one for each GPU."""
    starts, billed = job.script.starts, job.billed_gpus
    if not billed or any(each.launcher or each.entry for each in starts):
        return
    training = [(each, job.tasks_on_node(each)) for each in starts if uses_gpus(each)]
    # One process may prepare what the others read.
    if any(ranks is None or ranks >= billed for _, ranks in training):
        return
    for start, ranks in training:
        if not start.command.context.background:
            word = start.srun.word if start.srun else start.command.words[0]
            yield Hit(
                word.span,
                {"ranks": "1 process" if ranks == 1 else f"{ranks} processes", "gpus": billed},
            )


def _srun_missing(job: BatchJob) -> Iterator[Hit]:
    if not job.tasks or job.tasks < 2:
        return
    has_steps = any(each.srun for each in job.script.starts)
    for start in job.script.starts:
        # A launcher starts all ranks of one node by itself.
        if start.srun or (start.launcher and job.nodes == 1):
            continue
        if start.launcher or start.entry or (runs_python(start) and not has_steps):
            outer = start.command.context.start
            command = outer.command if outer else start.command
            yield Hit(command.words[0].span, {"tasks": job.tasks})


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "part-of-whole-node": _part_of_whole_node,
    "memory-bills-gpus": _memory,
    "cores-bill-gpus": _cores,
    "idle-gpus": _idle,
    "srun-missing": _srun_missing,
}
