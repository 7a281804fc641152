#!/usr/bin/env bash
# /// check
# proves: MPICH sends from the memory of one GPU to that of another
# level: full
# needs: {gpus: 2, architecture: gfx90a}
# mend: build the layers mpich and osu again; MPIR_CVAR_ENABLE_GPU must be 1
# ///
set -euo pipefail

mpiexec -n 2 /usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw \
    --message-size 1024:4096 --iterations 10 D D
