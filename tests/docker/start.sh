#!/usr/bin/env bash
# Start a real Docker engine of its own on this machine, and print what to export for docker to find it.
# It has no network but the host's, opens no port and sets no packet filter: build and run with --network=host.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/docker/common.sh
source "$here/common.sh"

up() { [[ -S $STATE/docker.sock ]] && timeout 120 docker version >/dev/null 2>&1; }

install_missing() {
    local pair updated=
    # Where docker.io does not have the client, it is in docker-cli; mmdebstrap makes the tests' base image.
    for pair in dockerd=docker.io docker=docker-cli mmdebstrap=mmdebstrap; do
        type -P "${pair%=*}" >/dev/null && continue
        type -P apt-get >/dev/null || {
            say "error: ${pair%=*} is missing and there is no apt-get: install it, then run this again."
            exit 3
        }
        say "installing ${pair#*=} by apt"
        [[ $updated ]] || apt-get update -qq >&2
        updated=yes
        apt_install "${pair#*=}"
    done
}

start_engine() {
    mkdir -m 755 "$STATE"
    # The user who called sudo may use the engine, too.
    sed "s,@STATE@,$STATE,; s,@GROUP@,${SUDO_GID:-0}," "$here/daemon.json" >"$STATE/daemon.json"
    setsid dockerd --config-file="$STATE/daemon.json" </dev/null >"$STATE/log" 2>&1 &
}

wait_until_up() {
    local deadline=$((SECONDS + 300))
    until up; do
        if ((SECONDS >= deadline)) || ! kill -0 "$1" 2>/dev/null; then
            say "error: the engine ended, or does not answer after 300 s; the end of its log, $STATE/log:"
            tail -n 10 "$STATE/log" >&2
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
    install_missing
    "$here/stop.sh"
    start_engine
    wait_until_up $!
    say "running: $(docker version --format 'engine {{.Server.Version}}, client {{.Client.Version}}')"
fi
printf 'export DOCKER_HOST=%s\n' "$DOCKER_HOST"
