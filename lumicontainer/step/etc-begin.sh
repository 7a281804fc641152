#!/usr/bin/env bash
# Give an image that is built without privileges an /etc in which users can be added.
#
# While %post runs, the engine lays files of its own over /etc/passwd, /etc/group, /etc/hosts and
# /etc/resolv.conf (SingularityCE 4: addIdentityMount). useradd and its kin rename a new file into the
# place of the old, which a mount refuses: "Device or resource busy". So a copy without mounts takes
# the place of /etc, and the folder that has them moves aside. Where nothing is mounted, as in a build
# by root or in a user namespace, all stays as it is.
set -euo pipefail
umask 022

aside=/opt/lumicontainer/.etc
grep -qE ' /etc/(passwd|group) ' /proc/self/mountinfo || exit 0

cp -a /etc /.etc
# The engine adds who builds to its files; the image's own users stand in /etc/shadow too. PRoot calls
# everybody root, but in what the kernel itself writes.
id="$(sed -nE 's/^Uid:\s*([0-9]+).*/\1/p' /proc/self/status)"
name="$(awk -F: -v id="$id" '$3 == id { print $1; exit }' /etc/passwd)"
if [[ -n $name ]] && ! grep -q "^$name:" /etc/shadow; then
    awk -F: -v name="$name" '$1 != name' /etc/passwd >/.etc/passwd
    awk -F: -v name="$name" '$4 != name' /etc/group >/.etc/group
fi
mkdir -p "${aside%/*}"
mv /etc "$aside"
mv /.etc /etc
