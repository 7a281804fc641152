#!/usr/bin/env bash
# /// check
# summary: hipcc makes programs for gfx90a
# hint: rebuild the layer rocm
# ///
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/twice.cpp" <<'END'
#include <hip/hip_runtime.h>

__global__ void twice(int *numbers) { numbers[threadIdx.x] *= 2; }

int main() {
    twice<<<1, 64>>>(nullptr);
    return 0;
}
END
hipcc --offload-arch=gfx90a "$folder/twice.cpp" -o "$folder/twice"
carried=$(PYTHONPATH=/opt/lumicontainer/lib python3 -m lumi_inside.elf.fatbin "$folder/twice")
if [[ " $carried " != *" gfx90a "* ]]; then
    echo "hipcc made a program with code for ${carried:-no GPU}, and not for gfx90a" >&2
    exit 1
fi
needed="$(ldd "$folder/twice")"
if grep 'not found' <<<"$needed" >&2; then
    echo "libraries of a HIP program are missing" >&2
    exit 1
fi
echo "hipcc makes programs for gfx90a"
