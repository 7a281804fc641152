"""Ask the nodes of a running job what it does there, by one step of the job."""

from collections.abc import Iterator
from pathlib import Path

from lumicontainer.jobs import slurm
from lumicontainer.jobs.watch.nodes import NodeReader, NodeState
from lumicontainer.system import process
from lumicontainer.system.budget import Helper

_SCRIPT = Path(__file__).with_name("probe.sh")
_LIMITS = Helper(60.0, 256 << 20, "scontrol show node NODE says if Slurm reaches the node")
_OPTIONS = ("--overlap", "--mem=0", "--gres=none", "--cpus-per-task=1", "--mpi=none", "--quiet")
"""The step shares the cores and the memory of the job's own, and takes no GPU from it."""


def ask_nodes(number: str, nodes: int) -> list[NodeState]:
    """Return the state of each node of a job once; raise ``HostError`` if a node is silent."""
    command = _command(number, nodes, 0)
    done = process.run_to_end(command, env=slurm.environment(), limits=_LIMITS)
    if done.returncode:
        raise process.ProgramError(command, done.returncode, done.stderr)
    reader = NodeReader()
    states = (reader.add(line) for line in done.stdout.split("\n"))
    return sorted((each for each in states if each), key=lambda state: state.name)


def watch_nodes(number: str, nodes: int, seconds: int) -> Iterator[NodeState]:
    """Yield the state of each node of a job again and again, until the job ends."""
    reader = NodeReader()
    command = _command(number, nodes, seconds)
    for line in process.lines(command, env=slurm.environment(), shown=command[:1]):
        if (state := reader.add(line)) is not None:
            yield state


def _command(number: str, nodes: int, seconds: int) -> list[str]:
    where = [f"--jobid={number}", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    # The nodes need not see the files of this program.
    script = ["bash", "-c", _SCRIPT.read_text(), "probe", number, str(seconds), ""]
    return ["srun", *where, *_OPTIONS, *script]
