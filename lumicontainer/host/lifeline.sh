#!/usr/bin/env bash
# Run a command, and end it when this script gets TERM.
#   setpriv --pdeathsig TERM lifeline.sh COMMAND...
# A build that is killed outright (kill -9) thus ends its engine too: the kernel sends this script
# TERM, where an engine would not get it, because it changes its credentials on its way.
set -euo pipefail

"$@" &
child=$!
trap 'kill -TERM "$child" 2>/dev/null || true' TERM
status=0
wait "$child" || status=$?
# The trap cuts a wait short.
while kill -0 "$child" 2>/dev/null; do
    status=0
    wait "$child" || status=$?
done
exit "$status"
