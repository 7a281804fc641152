#!/usr/bin/env bash
set -euo pipefail

if ! compgen -G '/sys/class/cxi/cxi*' >/dev/null; then
    echo "no /sys/class/cxi/cxi*: this machine has no interface of Slingshot"
    exit 77
fi
fi_info --provider cxi
