#!/usr/bin/env bash
# Run a command, and end it and its descendants when this script gets TERM.
#   setpriv --pdeathsig TERM lifeline.sh PARENT COMMAND...
# When a build is killed by SIGKILL, the kernel sends TERM to this script. It would not send TERM to an
# engine, which changes its credentials. PARENT is the process id of the build. This script leads its
# own process group.
set -euo pipefail

parent=$1
shift
# The whole group: an ended program leaves its children, such as mksquashfs, which run for minutes.
end() {
    trap '' TERM
    kill -TERM 0
}
trap end TERM
# Without a redirection, a command in the background has no stdin.
"$@" <&0 &
child=$!
# The parent may have ended before setpriv requested the signal.
if [[ $PPID != "$parent" ]]; then end; fi
status=0
wait "$child" || status=$?
# The trap interrupts wait.
while kill -0 "$child" 2>/dev/null; do
    status=0
    wait "$child" || status=$?
done
exit "$status"
