#!/usr/bin/env bash
# Start a real Slurm of two nodes on this machine, and print what to export for its commands to find it.
# usage: start.sh [DIGIT [SETTING]...]    settings are lines of slurm.conf, which win over those there
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/cluster/common.sh
source "$here/common.sh"

idle_nodes() { sinfo --noheader --Node --responding --states=idle,mixed,allocated --format=%N 2>/dev/null | wc -l; }

up() { [[ -e $SLURM_CONF ]] && (($(idle_nodes) == ${#NODES[@]})); }

install_slurm() {
    local command
    for command in slurmctld slurmd srun munged; do
        type -P "$command" >/dev/null && continue
        type -P apt-get >/dev/null || {
            say "error: $command is missing and there is no apt-get: install Slurm and MUNGE, then run this again."
            exit 3
        }
        say "installing slurm-wlm and munge by apt"
        apt-get update -qq >&2
        apt_install slurm-wlm munge
        return
    done
}

make_state() {
    local gpu file
    rm -rf "$STATE"
    mkdir -p "$STATE"/{munge,log} "${NODES[@]/#/$STATE/}"
    mkdir -m 700 "$STATE"/{secret,slurmctld}
    for gpu in {0..7}; do
        ln -s /dev/null "$STATE/gpu$gpu"
    done
    for file in slurm.conf servers.conf gres.conf cgroup.conf; do
        sed "s,@STATE@,$STATE,; s,@NUMBER@,$NUMBER,g" "$here/$file" >"$STATE/$file"
    done
    printf '%s\n' "$@" >>"$STATE/slurm.conf"
    mungekey --create --keyfile="$STATE/secret/munge.key"
}

# Mounts of their own, because machines with version 2 have none; and in each a folder of its own,
# because every cluster on this machine names its nodes and numbers its jobs alike.
make_control_group() {
    mkdir "$STATE/$1"
    mount -t cgroup -o "$1" lumicontainer "$STATE/$1" 2>/dev/null || return
    ln -s "$(mktemp -d "$STATE/$1/lumicontainer.XXXXXX")" "$STATE/cgroup/$1"
}

make_control_groups() {
    local memory=yes
    mkdir "$STATE/cgroup"
    make_control_group freezer || {
        say "error: the kernel lets this root mount no control groups: run this on a machine, or in a container with more rights."
        exit 3
    }
    # A kernel whose version 2 has the memory gives it to no other.
    make_control_group memory || memory=no
    sed -i "s,@MEMORY@,$memory," "$STATE/cgroup.conf"
}

name_nodes() { grep -qxF "$HOSTS_LINE" /etc/hosts || printf '%s\n' "$HOSTS_LINE" >>/etc/hosts; }

# Start a server under a host name of its own, so that jobs see two machines.
# shellcheck disable=SC2016  # the inner shell expands these
on_host() { unshare --uts sh -c 'hostname "$0" && exec "$@"' "$@"; }

start_servers() {
    local node
    munged --origin=127.0.0.1 --socket="$STATE/munge/socket" --pid-file="$STATE/munged.pid" \
        --log-file="$STATE/log/munged" --key-file="$STATE/secret/munge.key" --seed-file="$STATE/secret/munge.seed"
    on_host localhost slurmctld -f "$STATE/servers.conf"
    for node in "${NODES[@]}"; do
        on_host "$node" slurmd -N "$node" -f "$STATE/servers.conf"
    done
}

wait_until_up() {
    local deadline=$((SECONDS + 300))
    until up; do
        if ((SECONDS >= deadline)); then
            say "error: the nodes are not idle after 300 s; the ends of the logs in $STATE/log:"
            tail -n 10 "$STATE"/log/* >&2
            exit 3
        fi
        sleep 0.1
    done
}

umask 022
if up; then
    say "already running"
else
    as_root "$@"
    install_slurm
    "$here/stop.sh" "$NUMBER"
    make_state "${@:2}"
    make_control_groups
    name_nodes
    start_servers
    wait_until_up
    say "two nodes are idle: ${NODES[*]}"
fi
printf 'export SLURM_CONF=%s\n' "$SLURM_CONF"
