"""Nodes of a Slurm that a test file has for itself, so that it may end their servers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..conftest import ROOT
from ..integration.conftest import alone
from ..integration.processes import Env
from ..namespaces import as_root
from ..programs import run

CRASH = """
host=$(readlink "/proc/$1/ns/uts")
servers=()
for pid in $(pgrep slurm); do
    [[ $(readlink "/proc/$pid/ns/uts") != "$host" ]] || servers+=("$pid")
done
kill -KILL "${servers[@]}"
while pids=$(find "$2" -name cgroup.procs -exec cat {} +) && [[ $pids ]]; do kill -KILL $pids; done
"""
"""End the servers of a node, which have a host name together, and then what its jobs run.

In another order Slurm could hear of the end of a job from its own server.
"""


@contextmanager
def cluster_of(digit: str, *settings: str) -> Iterator[Env]:
    """Start the cluster of a digit, with lines of slurm.conf that win over its own."""
    folder = ROOT / "tests/cluster"
    with alone(digit):
        done = run([folder / "start.sh", digit, *settings])
        assert done.returncode == 0, done.stderr
        yield {"SLURM_CONF": done.stdout.strip().partition("=")[2]}
        run([folder / "stop.sh", digit])


@dataclass(frozen=True)
class Nodes:
    """The nodes of a cluster, by their names."""

    state: Path

    def daemon(self, name: str) -> int:
        return int((self.state / f"{name}.pid").read_text())

    def crash(self, name: str) -> None:
        """End all processes of a node at once."""
        jobs = self.state / f"cgroup/freezer/slurm_{name}"
        run([*as_root(), "bash", "-c", CRASH, "bash", self.daemon(name), jobs])
        self.mark_down(name)

    def lose(self, name: str) -> None:
        """End the daemon of a node, and let its jobs run on."""
        run([*as_root(), "kill", "-KILL", self.daemon(name)])
        self.mark_down(name)

    def mark_down(self, name: str) -> None:
        """Mark a node as Slurm itself does if it is silent for five minutes (SlurmdTimeout)."""
        down = ["scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=silent"]
        run([*as_root(), *down], env={"SLURM_CONF": self.state / "slurm.conf"})

    def start(self, name: str) -> None:
        """Start the daemon of a node that has none."""
        self._start(name, "slurmd", "-N", name)

    def start_missing(self) -> None:
        """Start the daemon of each node that a test which failed has left without one."""
        for file in self.state.glob("nid*.pid"):
            if not Path(f"/proc/{self.daemon(file.stem)}").exists():
                self.start(file.stem)

    def lose_controller(self) -> None:
        """End the controller, which the commands of Slurm ask."""
        run([*as_root(), "kill", "-KILL", self.daemon("slurmctld")])

    def start_controller(self) -> None:
        """Start the controller again, with the jobs that it knew."""
        self._start("localhost", "slurmctld")

    def _start(self, host: str, *server: str) -> None:
        shell = ["bash", "-c", 'hostname "$0" && PATH+=:/usr/sbin exec "$@"', host]
        command = [*server, "-f", self.state / "servers.conf"]
        run([*as_root(), "unshare", "--uts", *shell, *command])
