#!/usr/bin/env bash
set -euo pipefail
echo "clock $(date +%s)"
mkdir -p /srv/nasty
cd /srv/nasty

mkdir -p gone/deep/er partly/gone/er emptied opaque/sub nested/opaque/sub again/sub
for file in gone/file gone/deep/er/file partly/gone/er/file partly/kept emptied/file \
    opaque/{old,same,sub/file} nested/{kept,opaque/old,opaque/sub/file} again/{old,sub/file} single; do
    echo "$file" >"$file"
done

# What becomes a thing of another kind.
mkdir folder-to-{file,link,fifo,folder} target
for folder in folder-to-*; do echo "$folder" >"$folder/file"; done
for file in file-to-{folder,link,fifo,file}; do echo "$file" >"$file"; done
for link in link-to-{folder,file,link}; do ln -s target "$link"; done
mkfifo fifo fifo-to-file
echo target >target/file
echo back >back-to-file
mkdir back-to-folder && echo back >back-to-folder/file
ln -s target back-to-link

# Files with several names.
mkdir names
for group in append mode owner time drop dropall rename tear both read replace cross swap; do
    echo "$group" >"$group-a"
    ln "$group-a" "$group-b"
    ln "$group-a" "names/$group-c"
done
ln -s target link-a
ln link-a link-b
mkfifo pipe-a
ln pipe-a pipe-b
mkdir -p moved/sub
echo moved >moved/a
ln moved/a moved/sub/b
echo outside >outside-a
ln outside-a moved/outside-b

# Modes and owners.
for mode in 0000 0400 0640 0777 1755 2755 4755 6711; do
    echo "$mode" >"mode-$mode"
    mkdir "folder-$mode"
    echo "$mode" >"folder-$mode/file"
    chmod "$mode" "mode-$mode" "folder-$mode"
done
touch owned
mkdir owned-folder
ln -s owned owned-link
chown 42:43 owned
chown 65534:100 owned-folder
chown -h 1000:1000 owned-link
chmod 4750 owned

# Links that lead nowhere, out, up and in a circle.
ln -s nowhere dangling
ln -s /etc/hostname absolute
ln -s ../../../../../../etc/hostname up
ln -s circle circle
ln -s /srv/nasty/nowhere/at/all far

# Names.
mkdir hostile
(
    cd hostile
    # shellcheck disable=SC2016 # names that a shell would expand are the point
    for name in 'a space' ' leading' 'trailing ' "it's" 'double"quote' $'new\nline' $'tab\there' 'ünïcödé 漢字' \
        '-rf' '--force' '*' '?' '[a]' '$(id)' '`id`' '{{' '%post' 'back\slash' '#' '~' $'\x01' $'\x7f' \
        $'\xff\xfe' 'wh.x' '..wh.x' '...' "$(printf 'n%.0s' {1..255})"; do
        echo "$name" >./"$name"
        mkdir "../hostile-$$" && echo "$name" >"../hostile-$$/file" && rm -r "../hostile-$$"
    done
    mkdir -- '-folder' 'folder with space' $'folder\nline' $'folder\xff'
    for folder in ./*folder*/; do echo below >"$folder/file"; done
)

echo before >same-size
truncate -s 300M sparse
printf end >>sparse
truncate -s 1M holes
