#!/usr/bin/env bash
set -euo pipefail

mpi="$(dirname "$(dirname "$(command -v mpicc)")")"
cd "$sources/rccl-tests"
make -j "$jobs" MPI=1 MPI_HOME="$mpi" GPU_TARGETS="$GPU_TARGETS" \
    NCCL_HOME="$ROCM_PATH" HIP_HOME="$ROCM_PATH"
mkdir -p /usr/libexec/rccl-tests
install --mode 755 build/*_perf /usr/libexec/rccl-tests
