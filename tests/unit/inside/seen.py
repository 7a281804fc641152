"""Variables that real launchers put into the environment of a process.

Written down from Slurm 22.05 with three nodes and MPICH 4.0 (its mpiexec on its own, and in a batch
job); Open MPI's and PALS' from their documents. Left out: what names users, ports and folders, and
what Slurm and MPICH set for themselves.
"""

# salloc -N2 -n4 COMMAND
SALLOC = {
    "SLURM_JOB_ID": "1",
    "SLURM_JOB_NODELIST": "nid[005001-005002]",
    "SLURM_NNODES": "2",
    "SLURM_NTASKS": "4",
    "SLURM_TASKS_PER_NODE": "3,1",
}


def step(number: int, nodes: str, tasks: int, per_node: str, num_nodes: int) -> dict[str, str]:
    """Return the variables that describe a step to each of its tasks."""
    return {
        "SLURM_STEP_ID": str(number),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": str(num_nodes),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": per_node,
    }


def task(rank: int, local: int, node: int) -> dict[str, str]:
    """Return the variables that number a task of a step."""
    return {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_NODEID": str(node)}


def pmi(rank: int, size: int) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size)}


# sbatch -N2 -n4
BATCH = {**SALLOC, **task(0, 0, 0), "SLURMD_NODENAME": "nid005001"}

# salloc -N2 -n4, with LaunchParameters=use_interactive_step
INTERACTIVE = {**BATCH, **step(4294967290, "nid005001", 1, "1", 1)}

# srun -n1 sbatch -N2 -n4: the batch shell inherits the step that it was submitted from
BATCH_FROM_A_STEP = {**BATCH, **pmi(0, 1), **step(0, "nid005009", 1, "1", 1)}


def srun(rank: int) -> dict[str, str]:
    """Return task ``rank`` (0 to 3) of ``srun -N2 -n4``: three on one node, one on the other."""
    node, local = divmod(rank, 3)
    return {
        **SALLOC,
        **task(rank, local, node),
        **step(0, "nid[005001-005002]", 4, "3,1", 2),
        "SLURMD_NODENAME": f"nid00500{node + 1}",
        "SLURM_CPUS_ON_NODE": "3" if node == 0 else "1",
        "SLURM_DISTRIBUTION": "block",
    }


def srun_pmi2(rank: int) -> dict[str, str]:
    """Return the same task of ``srun --mpi=pmi2``."""
    return {**srun(rank), **pmi(rank, 4)}


def srun_cray_shasta(rank: int) -> dict[str, str]:
    """Return the same task of ``srun --mpi=cray_shasta``, after the source of that plugin."""
    env = srun_pmi2(rank)
    local = {"PMI_LOCAL_RANK": env["SLURM_LOCALID"], "PMI_LOCAL_SIZE": "3" if rank < 3 else "1"}
    return {**env, **local, "PALS_RANKID": str(rank), "PALS_LOCAL_RANKID": env["SLURM_LOCALID"]}


# srun -N3 -m arbitrary, with a host file that begins with the last node
ARBITRARY = {
    **srun(0),
    **step(0, "nid[005001-005003]", 4, "1(x2),2", 3),
    "SLURMD_NODENAME": "nid005003",
    "SLURM_DISTRIBUTION": "arbitrary",
    "SLURM_JOB_NODELIST": "nid[005001-005003]",
    "SLURM_NODEID": "2",
}

# srun -N1 -n2 A : -N2 -n3 B, the second task of B
HETEROGENEOUS = {
    **srun(0),
    **task(3, 1, 1),
    **step(0, "nid[005001-005003]", 5, "2(x2),1", 3),
    "SLURMD_NODENAME": "nid005002",
    "SLURM_JOB_NODELIST": "nid[005001-005003]",
    "SLURM_NTASKS": "5",
}


def mpiexec(rank: int, size: int = 2) -> dict[str, str]:
    """Return process ``rank`` of ``mpiexec -n SIZE`` of MPICH on one machine."""
    local = {"MPI_LOCALNRANKS": str(size), "MPI_LOCALRANKID": str(rank)}
    return {**pmi(rank, size), **local}


def mpiexec_in_batch(rank: int) -> dict[str, str]:
    """Return process ``rank`` of ``mpiexec -n 4`` in the batch job; its two daemons are a step."""
    node, local = divmod(rank, 3)
    return {
        **BATCH,
        **task(node, 0, node),
        **step(0, "nid[005001-005002]", 2, "1(x2)", 2),
        **mpiexec(rank, 4),
        "MPI_LOCALNRANKS": "3" if node == 0 else "1",
        "MPI_LOCALRANKID": str(local),
    }


OPEN_MPI = {
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
}

PALS = {
    "PALS_LOCAL_RANKID": "1",
    "PALS_RANKID": "3",
    "PMI_LOCAL_RANK": "1",
    "PMI_LOCAL_SIZE": "2",
    "PMI_RANK": "3",
    "PMI_SIZE": "4",
}

# torchrun with two processes a node, started by srun with one task a node; on the second node
TORCHRUN_IN_SRUN = {
    **srun(3),
    "GROUP_RANK": "1",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "nid005001",
    "MASTER_PORT": "29400",
    "OMP_NUM_THREADS": "1",
    "RANK": "3",
    "TORCHELASTIC_RUN_ID": "1234",
    "WORLD_SIZE": "8",
}

# A script of the user's numbers the ranks.
BY_HAND = {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "MASTER_ADDR": "n1"}
