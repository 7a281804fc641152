#!/usr/bin/env bash
# /// check
# summary: the OSU micro-benchmarks start, and two ranks exchange messages
# hint: rebuild the layers mpich and osu
# ///
set -euo pipefail

programs=/usr/libexec/osu-micro-benchmarks/mpi
needed="$(ldd "$programs/pt2pt/osu_bw")"
if grep 'not found' <<<"$needed" >&2; then
    echo "libraries of osu_bw are missing" >&2
    exit 1
fi
# Without the driver HIP has nothing to look for.
[[ -e /dev/kfd ]] || export MPIR_CVAR_ENABLE_GPU=0
# In a step of Slurm's mpiexec would start the ranks by srun, which the image does not have.
here=(-rmk user -launcher fork -hosts localhost)
said="$(mpiexec "${here[@]}" -n 2 "$programs/pt2pt/osu_bw" --message-size 1024:4096 --iterations 10)"
echo "$said"
if ! grep -q '^4096 ' <<<"$said"; then
    echo "osu_bw prints nothing for messages of 4096 bytes" >&2
    exit 1
fi
