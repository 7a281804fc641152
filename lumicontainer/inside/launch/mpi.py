"""Find out whether an image has MPI, and whether its ranks can find each other."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..checking import resolved
from .launchers import SLURM, Launch

# The variable that srun reads instead of --mpi. MPICH, the MPI of the images, starts through PMI2.
TYPE, PMI2 = "SLURM_MPI_TYPE", "pmi2"
_OF_MPI = re.compile(r"(mpich|mpi4py|horovod|libmpich\d\w*)\b")


def has_mpi(record: Mapping[str, Any]) -> bool:
    """Return whether an image with this record, its resolved.json, has MPICH or needs it."""
    for name, layer in record.get("layers", {}).items():
        packages = layer.get("packages", {}).values()
        if any(map(_OF_MPI.match, (name, *(each for kind in packages for each in kind)))):
            return True
    return False


def meets(env: Mapping[str, str]) -> bool:
    """Return whether the launcher of this process lets ranks of MPI find each other."""
    return any(name.startswith(("PMI_", "PMIX_", "OMPI_")) for name in env)


def lone_ranks(env: Mapping[str, str], launch: Launch) -> Iterator[str]:
    """Yield the warning of rank 0 if each rank of MPI would believe that it is alone."""
    tasks = launch.fact("WORLD_SIZE") or 1
    first = launch.name == SLURM and tasks > 1 and launch.fact("RANK") == 0
    if first and not meets(env) and has_mpi(resolved()):
        yield (
            f"the {tasks} tasks cannot meet by MPI, so each would be a program of one rank to "
            "Horovod and mpi4py: start those with srun --mpi=pmi2 (PyTorch alone needs no MPI)"
        )
