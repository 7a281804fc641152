#!/usr/bin/env bash
set -euo pipefail

mpi="$(dirname "$(dirname "$(command -v mpicc)")")"
cd "$sources/rccl-tests"
arguments=(MPI=1 MPI_HOME="$mpi" GPU_TARGETS="$GPU_TARGETS" NCCL_HOME="$ROCM_PATH" HIP_HOME="$ROCM_PATH")
if [[ $version == ae3e635 ]]; then
    # RCCL 2.24 renamed two types, and HIP 7 no longer includes <cstring>: this commit is older than both.
    if grep --quiet ncclFloat8e4m3 "$ROCM_PATH/include/rccl/rccl.h"; then
        export HIPCC_COMPILE_FLAGS_APPEND="-include cstring -DncclFp8E4M3=ncclFloat8e4m3 -DncclFp8E5M2=ncclFloat8e5m2"
    fi
    # All objects include headers that its Makefile makes for this one (verifiable/verifiable.mk).
    make --directory src "${arguments[@]}" BUILDDIR="$PWD/build" "$PWD/build/verifiable/verifiable.o"
fi
make -j "$jobs" "${arguments[@]}"
mkdir -p /usr/libexec/rccl-tests
install --mode 755 build/*_perf /usr/libexec/rccl-tests
