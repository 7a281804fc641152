"""Judge how ranks start and find each other."""

import re
from collections.abc import Callable, Iterator, Mapping

from lumicontainer.jobs.lint.checks.programs import uses_mpi
from lumicontainer.jobs.lint.job import BatchJob, Edit, Hit
from lumicontainer.jobs.lint.reading.model import (
    ENGINE,
    LAUNCHER,
    SRUN,
    Assignment,
    OptionUse,
    Start,
    StartedProgram,
    Word,
)

_OF_STEPS = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
_OF_RANKS = ("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_HOSTS = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|::1|0\.0\.0\.0)(?::.*)?")
_HOSTNAME = re.compile(r"\$\(hostname\b|`hostname\b|\$\{?HOSTNAME\b|\$\(uname -n\)")
_PORT = "$((10000 + SLURM_JOB_ID % 20000))"
_MPI_LAUNCHERS = ("mpirun", "mpiexec", "horovodrun")
_SLURM_TOOLS = ("srun", "sbatch", "scontrol", "squeue", "sacct", "sinfo", "scancel")


def _mpi_option(job: BatchJob) -> Iterator[Hit]:
    row = next((each for each in job.platform.slurm.srun if each.when == "mpi"), None)
    if row is None or any(job.script.exports("SLURM_MPI_TYPE")) or not job.script.is_closed:
        return
    has_mpi = "mpich" in job.layers
    for start in job.script.starts:
        srun = start.srun
        if srun is None or not srun.lacks("mpi") or start.launcher:
            continue
        if uses_mpi(start) or (has_mpi and start.entry):
            edits = job.insert_option(srun, row.option)
            yield Hit(srun.word.span, {"option": row.option, "reason": row.reason}, edits)


def _mpirun(job: BatchJob) -> Iterator[Hit]:
    for command in job.script.calls(*_MPI_LAUNCHERS) if job.is_batch else ():
        yield Hit(command.words[0].span, {"program": command.name})


def _launcher_per_task(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        tasks = job.tasks_on_node(start)
        launcher = start.launcher
        if not (launcher and start.srun and tasks and tasks > 1):
            continue
        if launcher.option("nproc-per-node") and launcher.option("nproc-per-node").text == "1":  # type: ignore[union-attr]
            continue
        yield Hit(launcher.word.span, {"tasks": tasks, "launcher": _name(launcher)})


def _name(part: StartedProgram) -> str:
    return part.word.text.rpartition("/")[2].replace("torch.distributed.run", "torchrun")


def _kind(launcher: StartedProgram) -> str:
    name = _name(launcher)
    if name in ("deepspeed",):
        return name
    return "accelerate" if name in ("launch", "accelerate.commands.launch") else "torchrun"


def _no_rendezvous(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        launcher = start.launcher
        if not (launcher and start.srun and job.nodes and job.nodes > 1 and not start.entry):
            continue
        if _srun_nodes(start, job) == 1 or not launcher.complete:
            continue
        if _kind(launcher) == "torchrun":
            alone = launcher.option("standalone")
            addressed = launcher.option("rdzv-endpoint", "master-addr")
            if alone or not addressed:
                yield Hit((alone.span if alone else launcher.word.span), {"nodes": job.nodes})
        elif _kind(launcher) == "accelerate" and not launcher.option(
            "main-process-ip", "config-file"
        ):
            yield Hit(launcher.word.span, {"nodes": job.nodes})


def _srun_nodes(start: Start, job: BatchJob) -> int | None:
    option = start.srun.option("nodes") if start.srun else None
    return option.number if option else job.nodes


def _node_count(job: BatchJob) -> Iterator[Hit]:
    for _, launcher in _launchers(job):
        option = launcher.option("nnodes", "num-machines", "num-nodes")
        if option and option.number and job.nodes and option.number != job.nodes:
            facts = {"option": option.name, "value": option.number, "nodes": job.nodes}
            yield Hit(option.span, facts, _number_edit(job, option, job.nodes))


def _process_count(job: BatchJob) -> Iterator[Hit]:
    for start, launcher in _launchers(job):
        if _kind(launcher) != "torchrun" or not job.gpus or (job.tasks_on_node(start) or 2) > 1:
            continue
        option = launcher.option("nproc-per-node")
        number = option.number if option else 1
        if number and number != job.gpus and (option or launcher.complete):
            span = option.span if option else launcher.word.span
            edits = _number_edit(job, option, job.gpus) if option else ()
            yield Hit(span, {"processes": number, "gpus": job.gpus}, edits)


def _launchers(job: BatchJob) -> Iterator[tuple[Start, StartedProgram]]:
    for start in job.script.starts:
        for part in start.parts:
            if part.kind == LAUNCHER:
                yield start, part


def _number_edit(job: BatchJob, option: OptionUse, number: int) -> tuple[Edit, ...]:
    value = option.value
    if value is None or not job.is_literal(value.span, option.text):
        return ()
    return (Edit(value.span, str(number)),)


def _early(job: BatchJob) -> Iterator[Hit]:
    if not job.is_batch:
        return
    ranks = [each.span for each in _rank_settings(job)]
    for name in _OF_STEPS:
        for span in job.script.expansions.get(name, ()):
            if not any(each.start <= span.start < each.end for each in ranks):
                yield Hit(span, {"name": name})


def _rank_settings(job: BatchJob) -> Iterator[Assignment]:
    for setting in job.script.exports(*_OF_RANKS):
        if not setting.context.start and job.is_batch and setting.value.text:
            yield setting


def _rank_exported(job: BatchJob) -> Iterator[Hit]:
    if not any(each.srun for each in job.script.starts):
        return
    for setting in _rank_settings(job):
        yield Hit(setting.span, {"name": setting.name})


def _world_size(job: BatchJob) -> Iterator[Hit]:
    if any(job.script.calls("for", "while")) or any(True for _ in _launchers(job)):
        return
    for setting in job.script.exports("WORLD_SIZE"):
        text = setting.value.text
        if job.tasks and text.isdecimal() and int(text) != job.tasks:
            literal = job.is_literal(setting.value.span, text)
            edits = (
                (Edit(setting.value.span, '"$SLURM_NTASKS"'),)
                if literal and job.option("ntasks", "ntasks-per-node") and setting.context.editable
                else ()
            )
            yield Hit(setting.span, {"value": text, "tasks": job.tasks}, edits)


def _local_address(job: BatchJob) -> Iterator[Hit]:
    if not job.nodes or job.nodes < 2:
        return
    for setting in job.script.exports("MASTER_ADDR"):
        if _LOCAL_HOSTS.fullmatch(setting.value.text):
            facts = {"value": setting.value.text, "nodes": job.nodes}
            yield Hit(setting.span, facts, _address_edit(job, setting))
    for _, launcher in _launchers(job):
        option = launcher.option("rdzv-endpoint", "master-addr", "main-process-ip")
        if option and option.value and _LOCAL_HOSTS.fullmatch(option.value.text):
            yield Hit(option.span, {"value": option.value.raw, "nodes": job.nodes})


def _address_edit(job: BatchJob, setting: Assignment) -> tuple[Edit, ...]:
    """Return the edit that asks Slurm for the first node, if nothing else is on the line."""
    if setting.lines is None or setting.context.start or not setting.context.editable:
        return ()
    line = job.script.text(setting.lines)
    indent = line[: len(line) - len(line.lstrip())]
    if line.strip() != f"export {job.script.text(setting.span)}":
        return ()
    address = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    end = line[len(line.rstrip("\r\n")) :]
    return (Edit(setting.lines, f"{indent}MASTER_ADDR={address}\n{indent}export MASTER_ADDR{end}"),)


def _own_address(job: BatchJob) -> Iterator[Hit]:
    if job.tasks == 1:
        return
    for setting in job.script.exports("MASTER_ADDR"):
        if setting.context.in_step and _HOSTNAME.search(setting.value.raw) and job.nodes != 1:
            yield Hit(setting.span, {"value": setting.value.raw})
    for start, launcher in _launchers(job):
        option = launcher.option("rdzv-endpoint", "master-addr", "main-process-ip")
        inner = start.command.context.in_step
        if (
            option
            and option.value
            and inner
            and _HOSTNAME.search(option.value.raw)
            and job.nodes != 1
        ):
            yield Hit(option.span, {"value": option.value.raw})


def _fixed_port(job: BatchJob) -> Iterator[Hit]:
    for setting in job.script.exports("MASTER_PORT"):
        if setting.value.text.isdecimal():
            literal = job.is_literal(setting.value.span, setting.value.text)
            own = not setting.context.in_container and setting.context.editable
            edits = (Edit(setting.value.span, _PORT),) if literal and own and job.is_batch else ()
            yield Hit(setting.span, {"port": setting.value.text}, edits)
    for _, launcher in _launchers(job):
        for name in ("master-port", "main-process-port", "rdzv-endpoint"):
            option = launcher.option(name)
            port = option.text if option else ""
            if option and option.value and name == "rdzv-endpoint":
                tail = re.fullmatch(r".*:(\d+)", option.value.text)
                port = tail[1] if tail and not launcher.option("standalone") else ""
            if option and port.isdecimal() and port != "0" and option.value:
                raw = option.value.raw
                if raw.rstrip("\"'").endswith(port):
                    yield Hit(option.span, {"port": port})


def _slurm_in_container(job: BatchJob) -> Iterator[Hit]:
    for start in job.script.starts:
        if word := _tool_in_container(start):
            yield Hit(word.span, {"program": word.text})


def _tool_in_container(start: Start) -> Word | None:
    command = start.command
    if command.context.in_container and command.name in _SLURM_TOOLS:
        return command.words[0]
    kinds = [each.kind for each in start.parts]
    inner = start.parts[kinds.index(ENGINE) :] if ENGINE in kinds else ()
    nested = next((each.word for each in inner if each.kind == SRUN), None)
    own = start.engine and start.program and start.program[0].text in _SLURM_TOOLS
    return start.program[0] if own else nested


def _deepspeed(job: BatchJob) -> Iterator[Hit]:
    for start, launcher in _launchers(job):
        if _kind(launcher) != "deepspeed" or not job.nodes or job.nodes < 2:
            continue
        option = launcher.option("launcher")
        if (
            not launcher.option("no-ssh")
            and not (option and option.text == "slurm")
            and not start.entry
        ):
            yield Hit(launcher.word.span, {"nodes": job.nodes})


def _larger_step(job: BatchJob) -> Iterator[Hit]:
    limits = {"nodes": job.nodes, "ntasks": job.tasks, "ntasks-per-node": job.tasks_per_node}
    if not job.option("ntasks", "ntasks-per-node"):
        limits = {"nodes": limits["nodes"]}
    for start in job.script.starts:
        for part in start.parts:
            if part.kind != SRUN or part.option("overcommit", "jobid", "overlap"):
                continue
            for name, most in limits.items():
                option = part.option(name)
                if option and option.number and most and option.number > most:
                    facts = {"option": name, "value": option.number, "most": most}
                    yield Hit(option.span, facts)


CHECKS: Mapping[str, Callable[[BatchJob], Iterator[Hit]]] = {
    "mpi-option-missing": _mpi_option,
    "mpirun": _mpirun,
    "launcher-per-task": _launcher_per_task,
    "launcher-without-rendezvous": _no_rendezvous,
    "launcher-node-count": _node_count,
    "launcher-process-count": _process_count,
    "step-variable-early": _early,
    "rank-exported": _rank_exported,
    "world-size": _world_size,
    "master-addr-localhost": _local_address,
    "master-addr-of-each-rank": _own_address,
    "master-port-fixed": _fixed_port,
    "slurm-in-container": _slurm_in_container,
    "deepspeed-over-ssh": _deepspeed,
    "step-larger-than-job": _larger_step,
}
