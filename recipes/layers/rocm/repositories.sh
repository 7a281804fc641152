#!/usr/bin/env bash
# Add AMD's repositories, whose key is fetched by https and held to its fingerprint.
set -euo pipefail

check_key() {
    local found
    mkdir --mode 700 "$TMPDIR/gnupg"
    found="$(GNUPGHOME="$TMPDIR/gnupg" gpg --batch --show-keys --with-colons "$1" |
        awk -F: '$1 == "pub" { wanted = 1 } $1 == "fpr" && wanted { print $10; wanted = 0 }')"
    if [[ $found != "$key_fingerprint" ]]; then
        echo "error: the key of AMD's repositories is not the one that is wanted" >&2
        echo "    why: its fingerprint is '$found', not '$key_fingerprint'" >&2
        echo "   hint: find out why; where AMD has changed it, set rocm.key_fingerprint" >&2
        exit 6
    fi
}

check_key "$sources/rocm.gpg.key"
mkdir -p /etc/apt/keyrings
install --mode 644 "$sources/rocm.gpg.key" /etc/apt/keyrings/rocm.asc

release="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
options="arch=amd64 signed-by=/etc/apt/keyrings/rocm.asc"
amd=https://repo.radeon.com
echo "deb [$options] $amd/rocm/apt/$version $release main" >/etc/apt/sources.list.d/rocm.list
echo "deb [$options] $amd/amdgpu/$amdgpu/ubuntu $release main" >/etc/apt/sources.list.d/amdgpu.list
# Ubuntu has a rocminfo and a hipcc of its own, of other versions.
printf 'Package: *\nPin: release o=repo.radeon.com\nPin-Priority: 800\n' >/etc/apt/preferences.d/rocm
