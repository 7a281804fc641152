#!/usr/bin/env bash
set -euo pipefail
cd /srv/nasty

echo 2 3 + p | dc | grep -qx 5
adduser --system --group --quiet --home /srv/nasty/guest guest

rm -r back-to-*
echo back >back-to-file
mkdir back-to-folder && echo back >back-to-folder/file
ln -s target back-to-link

mkdir gone && echo new >gone/file
mkdir -p partly/gone/er && echo new >partly/gone/er/other
rm opaque/same && echo third >opaque/old
echo third >>append-a
chmod 0644 names/mode-c
rm names/append-c
echo third >>cross-b
mv hostile hostile.moved
mv hostile.moved hostile
rm hostile/-rf hostile/$'new\nline' hostile/$'\xff\xfe'
rm -r hostile/-folder hostile/$'folder\xff'
mv hostile/"it's" hostile/'it is'
echo more >>hostile/"$(printf 'n%.0s' {1..255})"
echo tail >>sparse
