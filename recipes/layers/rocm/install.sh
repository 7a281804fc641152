#!/usr/bin/env bash
set -euo pipefail

check_version() {
    local found
    found="$(cat /opt/rocm/.info/version 2>/dev/null || true)"
    if [[ $found != "$version" && $found != "$version"-* ]]; then
        echo "error: /opt/rocm holds ${found:+ROCm }${found:-no ROCm}, not $version" >&2
        echo "   hint: choose rocm.version and ubuntu.version that go together" >&2
        exit 1
    fi
    echo /opt/rocm/lib >/etc/ld.so.conf.d/rocm.conf
    ldconfig
}

check_debian_version() {
    local found
    found="$(dpkg-query --show libamdhip64-dev | cut --fields 2)"
    if [[ $found != "$version"[-+]* ]]; then
        echo "error: Debian has HIP $found now, not $version" >&2
        echo "   hint: set rocm.version, or build with a lock" >&2
        exit 1
    fi
    # Where hipcc and CMake look with ROCM_PATH=/usr: AMD has the device libraries and clang there.
    local device_libraries
    device_libraries="$(realpath /usr/lib/llvm-*/lib/clang/*/amdgcn)"
    ln --symbolic --no-target-directory --force "$device_libraries" /usr/amdgcn
    ln --symbolic --no-target-directory --force "${device_libraries%/lib/clang/*}" /usr/llvm
    # Programs read ROCm's version where AMD's package rocm-core has it. Sid has neither file, experimental one.
    mkdir -p /usr/.info /usr/include/rocm-core
    echo "$version" >/usr/.info/version
    local minor="${version#*.}" header=/usr/include/rocm-core/rocm_version.h
    if [[ ! -e $header ]]; then
        printf '#define ROCM_%s\n' "VERSION_MAJOR ${version%%.*}" "VERSION_MINOR ${minor%%.*}" \
            "VERSION_PATCH ${version##*.}" "BUILD_INFO \"$version\"" >"$header"
    fi
    # PyTorch compiles C++ with -isystem $ROCM_HOME/include. With /usr/include there g++ misses its own headers;
    # it finds those of ROCm without the option.
    mkdir -p /opt/rocm-debian/include
    ln --symbolic --force /usr/.info /usr/bin /usr/lib /usr/llvm /opt/rocm-debian
}

if [[ $provider == debian ]]; then check_debian_version; else check_version; fi

# What LUMI's modules bind beside the platform's paths: engines that run without privileges cannot
# make the folders later.
mkdir -p /user-software /runscripts

. ./gpu-tools.sh
gpu_tools | while read -r tool; do
    mv "$tool" "$tool.real"
    install --mode 755 one-gfx90a.sh "$tool"
done
