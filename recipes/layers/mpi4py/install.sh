#!/usr/bin/env bash
set -euo pipefail

python -m pip install --no-deps --no-index --find-links "$wheels" "mpi4py==$version"
