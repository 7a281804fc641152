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

if [[ $provider != debian ]]; then check_version; fi

# What LUMI binds: engines that build or run without privileges cannot make the folders later.
mkdir -p /var/spool/slurmd /boot /pfs /scratch /projappl /project /flash /appl /user-software /runscripts

. ./gpu-tools.sh
gpu_tools | while read -r tool; do
    mv "$tool" "$tool.real"
    install --mode 755 one-gfx90a.sh "$tool"
done
