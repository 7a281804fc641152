#!/usr/bin/env bash
# End the Slurm that start.sh started, with its jobs, and take its node names out of /etc/hosts.
set -euo pipefail
# shellcheck source=tests/cluster/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cancel_jobs() {
    local deadline=$((SECONDS + 20))
    timeout 10 scancel --partition=standard-g 2>/dev/null || return 0
    until [[ -z $(timeout 10 squeue --noheader 2>/dev/null) ]] || ((SECONDS >= deadline)); do
        sleep 0.1
    done
}

# Print the server's process number; a number left in a file may be another process by now.
server_pid() {
    local pid
    pid=$(cat "$STATE/$1.pid" 2>/dev/null) && [[ $(cat "/proc/$pid/comm" 2>/dev/null) == "$2" ]] && printf '%s\n' "$pid"
}

end_servers() {
    local pid node
    local -a pids
    mapfile -t pids < <(
        for node in "${NODES[@]}"; do server_pid "$node" slurmd || true; done
        server_pid slurmctld slurmctld || true
        server_pid munged munged || true
    )
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${pids[@]}"; do
        timeout 10 tail --sleep-interval=0.1 --pid="$pid" -f /dev/null || kill -KILL "$pid"
    done
}

remove_control_groups() {
    local each
    for each in "${CONTROLLERS[@]}"; do
        mountpoint -q "$STATE/$each" || continue
        find "$(readlink "$STATE/cgroup/$each")" -depth -type d -exec rmdir {} +
        umount "$STATE/$each"
    done
}

unname_nodes() {
    local rest
    grep -qxF "$HOSTS_LINE" /etc/hosts || return 0
    rest=$(grep -vxF "$HOSTS_LINE" /etc/hosts)
    # Written in place: in a container /etc/hosts is a mount, which cannot be replaced.
    printf '%s\n' "$rest" >/etc/hosts
}

[[ -e $STATE ]] || exit 0
as_root "$@"
cancel_jobs
end_servers
remove_control_groups
unname_nodes
rm -rf "$STATE"
say "ended"
