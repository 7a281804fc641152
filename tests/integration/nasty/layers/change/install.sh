#!/usr/bin/env bash
set -euo pipefail
cd /srv/nasty

rm -r gone partly/gone emptied/file single
rm -r opaque && mkdir opaque && echo same >opaque/same && echo new >opaque/new && mkdir opaque/sub
rm -r nested/opaque && mkdir -p nested/opaque/sub/new
rm -r again && mkdir again && chmod 2750 again && chown 42:42 again

rm -r folder-to-* file-to-* link-to-* fifo-to-file
for name in folder file link; do mkdir "$name-to-folder" && echo new >"$name-to-folder/new"; done
for name in folder file link fifo; do echo new >"$name-to-file"; done
for name in folder file link; do ln -s names "$name-to-link"; done
for name in folder file; do mkfifo "$name-to-fifo"; done
rm -r back-to-*
mkdir back-to-file back-to-link && echo between >back-to-file/file && echo between >back-to-link/file
echo between >back-to-folder

# A change through one name is a change of the file, whatever its other names.
echo more >>append-b
chmod 0600 mode-b
chown 42:42 names/owner-c
touch time-a
rm drop-a
rm dropall-a dropall-b names/dropall-c
mv rename-a rename-new
echo torn >tear.new && mv tear.new tear-a
echo more >>both-a && echo more >>names/both-c
echo more >>read-a && cat read-b names/read-c >read-seen
echo more >>replace-a && rm replace-b && echo other >replace-b
ln cross-a cross-new && ln names/cross-c opaque/cross-new
echo more >>swap-a && mv swap-a swap-tmp && mv swap-b swap-a && mv swap-tmp swap-b
# Both: unsquashfs makes two links of a link with two names.
chown -h 42 link-a link-b
chmod 0600 pipe-b
mv moved elsewhere

chmod 0755 mode-0000
chmod 0000 mode-0777
chmod 0700 folder-2755
chmod 4755 owned
chown 0:0 owned-folder
touch owned-link

# No time and no size shows it.
touch -r same-size stamp && echo behind >same-size && touch -r stamp same-size && rm stamp

# What the base has.
rm -r /usr/share/doc/bash /usr/share/zoneinfo
mv /usr/share/common-licenses /usr/share/licenses
rm /usr/share/licenses/GPL
mv /usr/lib/python3 /usr/lib/python3.moved && cp -a /usr/lib/python3.moved /usr/lib/python3
echo new >replaced && mv replaced /etc/debian_version && rm /etc/debian_version
echo '# more' >>/etc/bash.bashrc
chmod 0700 /srv
chmod 0755 /srv
ln /usr/bin/env /opt/env
ln /etc/passwd hard-passwd
rm /usr/bin/tac && mkdir /usr/bin/tac && echo file >/usr/bin/tac/file
