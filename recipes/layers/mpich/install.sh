#!/usr/bin/env bash
set -euo pipefail

# Debian's MPICH 4.0.2 may hang in MPI_Finalize (pmodels/mpich#6596), and its library is not called
# libmpi.so.12, the name that MPICH's ABI gives it and Cray MPICH bears too.
python -m pip install --no-deps --require-hashes --requirement requirements.txt
