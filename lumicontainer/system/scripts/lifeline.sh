#!/usr/bin/env bash
# Run a command, and end it and its descendants when this script gets TERM.
#   setpriv --pdeathsig TERM lifeline.sh PARENT SECONDS COMMAND...
# When a build is killed by SIGKILL, the kernel sends TERM to this script. It would not send TERM to an
# engine, which changes its credentials. PARENT is the process id of the build. This script leads its
# own session. What does not end within SECONDS is killed.
set -euo pipefail

parent=$1
seconds=$2
shift 2
others=()
# Set $others to the processes of this session but this one.
find_others() {
    local stat line fields pid
    others=()
    for stat in /proc/[0-9]*/stat; do
        # A process may end at any time. Its name may hold blanks and brackets.
        { read -r line <"$stat"; } 2>/dev/null || continue
        read -r -a fields <<<"${line##*) }"
        pid="${line%% *}"
        if [[ ${fields[0]} != Z && ${fields[3]} == "$$" && $pid != "$$" ]]; then others+=("$pid"); fi
    done
}
# The whole group: an ended program leaves its children, such as mksquashfs, which run for minutes.
# Then the session: who is stopped ignores TERM, and a killed engine leaves what serves its files.
end() {
    local end=$((SECONDS + seconds))
    trap '' TERM
    kill -TERM 0
    while find_others && [[ ${#others[@]} -gt 0 ]]; do
        if [[ $SECONDS -ge $end ]]; then kill -KILL "${others[@]}" 2>/dev/null || true; fi
        sleep 0.2
    done
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
