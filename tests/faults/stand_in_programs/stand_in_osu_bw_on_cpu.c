/* Stands in for osu_bw between the memories of CPUs: two ranks of the real MPICH send to each other.
 *
 * FAULT is `silent` (it prints no measurement), or nothing. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static char message[4096];

int main(int count, char **words) {
    int rank, ranks, silent = getenv("FAULT") != NULL;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "This test requires exactly two processes\n");
        MPI_Finalize();
        return 1;
    }
    if (rank == 0) puts("# OSU MPI Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)");
    for (int size = 1024; size <= 4096; size *= 2) {
        if (rank == 0) MPI_Send(message, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        else MPI_Recv(message, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0 && !silent) printf("%-10d%20.2f\n", size, 1000.0);
    }
    MPI_Finalize();
    return 0;
}
