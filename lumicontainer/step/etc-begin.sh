#!/usr/bin/env bash
# Make it possible to add users in a build without privileges.
#
# During %post the engine mounts files on /etc/passwd, /etc/group, /etc/hosts and /etc/resolv.conf
# (SingularityCE 4: addIdentityMount). useradd replaces such a file by rename, which fails on a mount:
# "Device or resource busy". So this script replaces /etc by a copy without mounts. A build by root or
# in a user namespace has no mounts and needs no change.
set -euo pipefail
umask 022

aside=/opt/lumicontainer/.etc
grep -qE ' /etc/(passwd|group) ' /proc/self/mountinfo || exit 0

cp -a /etc /.etc
# The engine adds the build's user to its files; the image's own users are in /etc/shadow too. PRoot
# reports every user as root, except in /proc.
id="$(sed -nE 's/^Uid:\s*([0-9]+).*/\1/p' /proc/self/status)"
name="$(awk -F: -v id="$id" '$3 == id { print $1; exit }' /etc/passwd)"
if [[ -n $name ]] && ! grep -q "^$name:" /etc/shadow; then
    awk -F: -v name="$name" '$1 != name' /etc/passwd >/.etc/passwd
    awk -F: -v name="$name" '$4 != name' /etc/group >/.etc/group
fi
mkdir -p "${aside%/*}"
mv /etc "$aside"
mv /.etc /etc
