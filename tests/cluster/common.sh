# What start.sh and stop.sh share.
# shellcheck shell=bash
# shellcheck disable=SC2034  # services.sh uses it
readonly SERVICE=cluster
# shellcheck source=tests/services.sh
source "$(dirname "${BASH_SOURCE[0]}")/../services.sh"
# The first argument is a digit. Tests that end servers start a cluster with another digit than 0.
readonly NUMBER=${1:-0}
readonly STATE=/run/lumicontainer-cluster${NUMBER#0}
# shellcheck disable=SC2034  # both scripts use it
readonly CONTROLLERS=(freezer memory)
readonly NODES=("nid0050${NUMBER}1" "nid0050${NUMBER}2")
# shellcheck disable=SC2034  # both scripts use it
readonly HOSTS_LINE="127.0.0.1 ${NODES[*]} # lumicontainer test cluster"
export SLURM_CONF=$STATE/slurm.conf
