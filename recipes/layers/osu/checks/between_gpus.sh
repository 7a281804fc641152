#!/usr/bin/env bash
set -euo pipefail

if [[ ! -e /dev/kfd ]]; then
    echo "no /dev/kfd: this machine has no GPU of AMD's with its driver"
    exit 77
fi
mpiexec -n 2 /usr/libexec/osu-micro-benchmarks/mpi/pt2pt/osu_bw \
    --message-size 1024:4096 --iterations 10 D D
