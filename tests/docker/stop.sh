#!/usr/bin/env bash
# End the Docker engine that start.sh started, with its containers, and remove its images.
set -euo pipefail
# shellcheck source=tests/docker/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Print the engine's process number; a number left in a file may be another process by now.
engine_pid() {
    local pid
    pid=$(cat "$STATE/dockerd.pid" 2>/dev/null) && [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]] && printf '%s\n' "$pid"
}

end_engine() {
    local pid
    pid=$(engine_pid) && kill "$pid" 2>/dev/null || return 0
    # It gives its containers 15 s to end by themselves; its own containerd ends with it.
    timeout 30 tail --sleep-interval=0.1 --pid="$pid" -f /dev/null || kill -KILL "$pid"
}

# The mount of its data outlives an engine that was killed.
unmount_all() {
    local folder
    while read -r folder; do
        umount "$folder"
    done < <(awk -v state="$STATE/" 'index($5, state) == 1 { print $5 }' /proc/self/mountinfo | sort -r)
}

[[ -e $STATE ]] || exit 0
as_root "$@"
end_engine
unmount_all
rm -rf "$STATE"
say "ended"
