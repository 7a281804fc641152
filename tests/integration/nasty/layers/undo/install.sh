#!/usr/bin/env bash
set -euo pipefail
cd /srv/nasty

apt-get -q -y purge dc
deluser --quiet --system guest

rm -r gone opaque nested folder-to-folder
mkdir -p opaque/sub
rm -r names
echo last >>swap-a
rm drop-b
for file in emptied partly; do rm -r "$file"; done
rm -r hostile/*
: >fifo-to-file
