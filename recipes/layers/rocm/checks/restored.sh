#!/usr/bin/env bash
# /// check
# summary: rocminfo and similar tools are ROCm's, not the build's stand-ins
# hint: rebuild the image; the layer's finish.sh puts them back
# ///
set -euo pipefail

left="$(find /opt/rocm/ /usr/bin /usr/lib -xdev -name '*.real' -path '*/bin/*' 2>/dev/null || true)"
if [[ -n $left ]]; then
    printf 'programs that were put aside while the image was built are not back: %s\n' "$left" >&2
    exit 1
fi
seen=0
for tool in /opt/rocm/bin/rocminfo /opt/rocm/bin/rocm_agent_enumerator \
    /opt/rocm/lib/llvm/bin/amdgpu-arch /opt/rocm/lib/llvm/bin/offload-arch \
    /usr/bin/rocminfo /usr/bin/rocm_agent_enumerator /usr/lib/llvm-*/bin/amdgpu-arch; do
    [[ -e $tool ]] || continue
    seen=$((seen + 1))
    if grep -q 'Stands in for rocminfo' "$tool"; then
        echo "$tool answers gfx90a whatever the machine has: it is the stand-in of the build" >&2
        exit 1
    fi
done
if ((seen == 0)); then
    echo "neither rocminfo nor amdgpu-arch is there" >&2
    exit 1
fi
# The true ones cannot name a GPU where the driver is not. One that waits for it names none either.
if [[ ! -e /dev/kfd ]]; then
    for tool in rocminfo rocm_agent_enumerator amdgpu-arch offload-arch; do
        said="$(PATH="$PATH:/opt/rocm/lib/llvm/bin" timeout 20 "$tool" 2>/dev/null || true)"
        if [[ $said == *gfx90a* ]]; then
            echo "$tool names a GPU on a machine without one" >&2
            exit 1
        fi
    done
fi
echo "$seen programs that ask for GPUs are ROCm's own"
