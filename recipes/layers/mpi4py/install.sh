#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt
# The ready wheel looks for an MPI library by a file name that Debian's MPICH does not have.
PYTHONPATH="$build" python -m pip install --no-deps --no-build-isolation --no-binary mpi4py \
    --require-hashes --requirement requirements.txt
