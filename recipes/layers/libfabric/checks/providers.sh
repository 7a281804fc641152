#!/usr/bin/env bash
# /// check
# summary: libfabric has the provider tcp, which needs nothing but a loopback interface
# hint: rebuild the layer libfabric
# ///
set -euo pipefail

providers=$(fi_info --list | sed -n 's/^\([a-z].*\):$/\1/p' | paste -sd ' ')
echo "providers: ${providers:-none}"
if [[ " $providers " != *" tcp "* ]]; then
    echo "fi_info lists no tcp provider, which needs nothing but a loopback interface" >&2
    exit 1
fi
