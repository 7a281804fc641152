#!/usr/bin/env bash
# /// check
# summary: "rccl-tests are whole: linked with RCCL and MPI, with code for gfx90a"
# hint: rebuild the layer rccl-tests
# ///
set -euo pipefail

if ! program="$(command -v all_reduce_perf)"; then
    echo "all_reduce_perf not found on PATH" >&2
    exit 1
fi
needed="$(ldd "$program")"
if grep 'not found' <<<"$needed" >&2; then
    echo "libraries of $program are missing" >&2
    exit 1
fi
for library in librccl.so.1 libmpi.so.12; do
    if [[ $needed != *"$library"* ]]; then
        echo "$program is not linked with $library" >&2
        exit 1
    fi
done
carried=" $(PYTHONPATH=/opt/lumicontainer/lib python3 -m lumi_inside.elf.fatbin "$program") "
if [[ $carried != *" gfx90a "* ]]; then
    echo "$program has code for${carried% }, and none for gfx90a" >&2
    exit 1
fi
ls "${program%/*}"
