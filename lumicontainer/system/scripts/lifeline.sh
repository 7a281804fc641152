#!/usr/bin/env bash
# Run a command, and end it with all that it started when this script gets TERM.
#   setpriv --pdeathsig TERM lifeline.sh PARENT COMMAND...
# A build that is killed outright (kill -9) thus ends its engine too: the kernel sends this script
# TERM, where an engine would not get it, because it changes its credentials on its way. PARENT is the
# id of the build's process. The script leads a process group of its own.
set -euo pipefail

parent=$1
shift
# The whole group, because a program that is ended leaves those that it has started, such as
# mksquashfs, which run on for minutes.
end() {
    trap '' TERM
    kill -TERM 0
}
trap end TERM
# A command in the background gets no stdin, unless it is said.
"$@" <&0 &
child=$!
# The parent may have gone before setpriv asked for the signal.
if [[ $PPID != "$parent" ]]; then end; fi
status=0
wait "$child" || status=$?
# The trap cuts a wait short.
while kill -0 "$child" 2>/dev/null; do
    status=0
    wait "$child" || status=$?
done
exit "$status"
