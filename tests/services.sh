# What the scripts share that start and end a test run's own servers; SERVICE names what they serve.
# shellcheck shell=bash

# On Debian the folder of servers is not on an ordinary user's PATH.
PATH+=:/usr/sbin:/sbin

say() { printf '%s: %s\n' "$SERVICE" "$*" >&2; }

as_root() {
    ((EUID)) || return 0
    type -P sudo >/dev/null || {
        say "error: starting and ending servers needs root: run $0 as root, or install sudo."
        exit 3
    }
    exec sudo -- "$BASH" "$0" "$@"
}

# Install packages; on a fresh Ubuntu the system's own apt is often at work.
apt_install() {
    start_no_service
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" >&2
}

# Debian and Ubuntu start a service when they install it; the tests want servers of their own only.
start_no_service() {
    local policy=/usr/sbin/policy-rc.d
    [[ ! -e $policy ]] || return 0
    # shellcheck disable=SC2064  # the path is the present one
    trap "rm -f $policy" EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}
