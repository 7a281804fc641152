# What start.sh and stop.sh share.
# shellcheck shell=bash
# shellcheck disable=SC2034  # services.sh uses it
readonly SERVICE=cluster
# shellcheck source=tests/services.sh
source "$(dirname "${BASH_SOURCE[0]}")/../services.sh"
readonly STATE=/run/lumicontainer-cluster
# shellcheck disable=SC2034  # both scripts use it
readonly FREEZER=$STATE/freezer
readonly NODES=(nid005001 nid005002)
# shellcheck disable=SC2034  # both scripts use it
readonly HOSTS_LINE="127.0.0.1 ${NODES[*]} # lumicontainer test cluster"
export SLURM_CONF=$STATE/slurm.conf
