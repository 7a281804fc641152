#!/usr/bin/env bash
set -euo pipefail

# Debian lets the lists of sid expire after a week. A mirror that is frozen on a day has older ones, and
# a lock needs the packages of its day. apt still checks who has signed them.
if [[ $version == sid ]]; then
    echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/10lists-do-not-expire
fi
