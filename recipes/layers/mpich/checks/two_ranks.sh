#!/usr/bin/env bash
# /// check
# summary: mpicc compiles, and two ranks of MPICH find each other
# hint: rebuild the layer mpich
# ///
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/ring.c" <<'END'
#include <mpi.h>
#include <stdio.h>

int main(void) {
    int rank, ranks, sum;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d ranks, sum %d\n", ranks, sum);
    return MPI_Finalize();
}
END
# Without the driver HIP has nothing to look for.
[[ -e /dev/kfd ]] || export MPIR_CVAR_ENABLE_GPU=0
mpicc "$folder/ring.c" -o "$folder/ring"
# In a step of Slurm's mpiexec would start the ranks by srun, which the image does not have.
said=$(mpiexec -rmk user -launcher fork -hosts localhost -n 2 "$folder/ring")
echo "$said"
if [[ $said != "2 ranks, sum 1" ]]; then
    echo "two ranks of MPICH did not find each other" >&2
    exit 1
fi
