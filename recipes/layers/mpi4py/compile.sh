#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt

# Cython writes one C file of 13 MB, on whose pointers gcc spends two thirds of its time to little gain.
export CFLAGS="-fno-tree-pta"
# From source, against this MPICH's headers: the ready wheel fits any MPI, by what all of them have.
PYTHONPATH="$build" python -m pip wheel --no-deps --no-build-isolation --no-binary mpi4py \
    --require-hashes --requirement requirements.txt --wheel-dir "$wheels"
