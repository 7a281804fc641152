#!/usr/bin/env bash
# /// check
# summary: a HIP program computes on the GPU
# level: full
# needs: {gpus: 1, architecture: gfx90a}
# hint: check the driver (dmesg, /sys/module/amdgpu/version) and at lumicontainer check
# ///
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/twice.cpp" <<'END'
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void twice(int *numbers) { numbers[threadIdx.x] *= 2; }

int fails(const char *what) {
    std::printf("%s fails\n", what);
    return 1;
}

int main() {
    int devices = 0, wrong = 0, *numbers = nullptr;
    if (hipGetDeviceCount(&devices) != hipSuccess || devices == 0) return fails("hipGetDeviceCount");
    if (hipMallocManaged(&numbers, 64 * sizeof(int)) != hipSuccess) return fails("hipMallocManaged");
    for (int i = 0; i < 64; i++) numbers[i] = i;
    twice<<<1, 64>>>(numbers);
    if (hipDeviceSynchronize() != hipSuccess) return fails("the kernel");
    for (int i = 0; i < 64; i++) wrong += numbers[i] != 2 * i;
    std::printf("%d GPUs, %d wrong numbers\n", devices, wrong);
    return wrong ? 1 : 0;
}
END
hipcc --offload-arch=gfx90a "$folder/twice.cpp" -o "$folder/twice"
"$folder/twice"
