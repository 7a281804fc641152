#!/usr/bin/env bash
# Take the packages of this ROCm from Debian experimental, and all others from sid.
set -euo pipefail

sed 's/ sid / experimental /' /etc/apt/sources.list >/etc/apt/sources.list.d/experimental.list
# All of a ROCm release bear its version in experimental. apt compares versions for named packages only.
printf 'Package: hip* lib* roc*\nPin: version %s*\nPin-Priority: 990\n' "$version" >/etc/apt/preferences.d/rocm
