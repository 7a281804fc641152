# What start.sh and stop.sh share.
# shellcheck shell=bash
# shellcheck disable=SC2034  # services.sh uses it
readonly SERVICE=docker
# shellcheck source=tests/services.sh
source "$(dirname "${BASH_SOURCE[0]}")/../services.sh"
# Not below /run, which is in memory: the engine keeps every layer as a whole tree.
readonly STATE=/var/tmp/lumicontainer-docker
export DOCKER_HOST=unix://$STATE/docker.sock
