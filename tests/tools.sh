#!/usr/bin/env bash
# Install the programs that tests call and no other script brings.
set -euo pipefail
# shellcheck disable=SC2034  # services.sh uses it
readonly SERVICE=tools
# shellcheck source=tests/services.sh
source "$(dirname "${BASH_SOURCE[0]}")/services.sh"

if type -P strace >/dev/null; then exit; fi
as_root
type -P apt-get >/dev/null || {
    say "error: strace is missing and there is no apt-get: install it, then run this again."
    exit 3
}
say "installing strace by apt"
apt-get update -qq >&2
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends strace >&2
