# shellcheck shell=bash disable=SC2034
# The limits of a download, which are SOURCE in lumicontainer/system/budget.py: bytes, seconds of all
# attempts together, bytes a second on average over a window of seconds, and the pauses between attempts.
read -r most seconds slowest window pauses <<<"${LUMICONTAINER_LIMITS:-34359738368 86400 1024 120 1 2 4 8}"
most_files=500000
most_submodules=1000
# KiB of address space for git, which keeps the list of all branches and tags in memory.
most_memory=16777216
