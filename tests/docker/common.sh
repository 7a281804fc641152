# What start.sh and stop.sh share.
# shellcheck shell=bash
# Not below /run, which is in memory: the engine keeps every layer as a whole tree.
readonly STATE=/var/tmp/lumicontainer-docker
# On Debian an ordinary user's PATH lacks the folder that the engine lies in.
PATH+=:/usr/sbin:/sbin
export DOCKER_HOST=unix://$STATE/docker.sock

say() { printf 'docker: %s\n' "$*" >&2; }

as_root() {
    ((EUID)) || return 0
    type -P sudo >/dev/null || {
        say "error: starting and ending the Docker engine needs root: run $0 as root, or install sudo."
        exit 3
    }
    exec sudo -- "$BASH" "$0"
}
