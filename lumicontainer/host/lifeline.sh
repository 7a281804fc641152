#!/usr/bin/env bash
# Run a command, and end it when this script gets TERM.
#   setpriv --pdeathsig TERM lifeline.sh PARENT COMMAND...
# A build that is killed outright (kill -9) thus ends its engine too: the kernel sends this script
# TERM, where an engine would not get it, because it changes its credentials on its way. PARENT is the
# id of the build's process.
set -euo pipefail

parent=$1 ended=
shift
trap 'ended=1; if [[ -n ${child:-} ]]; then kill -TERM "$child" 2>/dev/null || true; fi' TERM
"$@" &
child=$!
# The signal may have come before the command was there, the parent may have gone before setpriv.
if [[ -n $ended || $PPID != "$parent" ]]; then kill -TERM "$child" 2>/dev/null || true; fi
status=0
wait "$child" || status=$?
# The trap cuts a wait short.
while kill -0 "$child" 2>/dev/null; do
    status=0
    wait "$child" || status=$?
done
exit "$status"
