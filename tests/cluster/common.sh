# What start.sh and stop.sh share.
# shellcheck shell=bash
readonly STATE=/run/lumicontainer-cluster
readonly NODES=(nid005001 nid005002)
# shellcheck disable=SC2034  # both scripts use it
readonly HOSTS_LINE="127.0.0.1 ${NODES[*]} # lumicontainer test cluster"
# On Debian an ordinary user's PATH lacks the folder that Slurm's and MUNGE's servers lie in.
PATH+=:/usr/sbin:/sbin
export SLURM_CONF=$STATE/slurm.conf

say() { printf 'cluster: %s\n' "$*" >&2; }

as_root() {
    ((EUID)) || return 0
    type -P sudo >/dev/null || {
        say "error: starting and ending Slurm's servers needs root: run $0 as root, or install sudo."
        exit 3
    }
    exec sudo -- "$BASH" "$0"
}
