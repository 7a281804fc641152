#!/usr/bin/env bash
set -euo pipefail

# Install ROCm from AMD's repositories, whose key is fetched by https and held to its fingerprint.
install_from_amd() {
    local key=/etc/apt/keyrings/rocm.asc signed=signed-by=/etc/apt/keyrings/rocm.asc
    local apt=(apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0)
    mkdir -p /etc/apt/keyrings
    curl --fail --silent --show-error --location --output "$TMPDIR/rocm.asc" "$repository/rocm/rocm.gpg.key"
    check_key "$TMPDIR/rocm.asc"
    install --mode 644 "$TMPDIR/rocm.asc" "$key"

    local release
    release="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
    echo "deb [arch=amd64 $signed] $repository/rocm/apt/$version $release main" \
        >/etc/apt/sources.list.d/rocm.list
    echo "deb [arch=amd64 $signed] $repository/amdgpu/$amdgpu/ubuntu $release main" \
        >/etc/apt/sources.list.d/amdgpu.list
    # Ubuntu has a rocminfo and a hipcc of its own, of other versions.
    printf 'Package: *\nPin: release o=repo.radeon.com\nPin-Priority: 800\n' \
        >/etc/apt/preferences.d/rocm
    "${apt[@]}" update
    "${apt[@]}" install --no-install-recommends libdrm-amdgpu-dev rocm-dev rocm-libs
}

check_key() {
    local found
    mkdir --mode 700 "$TMPDIR/gnupg"
    found="$(GNUPGHOME="$TMPDIR/gnupg" gpg --batch --show-keys --with-colons "$1" |
        awk -F: '$1 == "pub" { wanted = 1 } $1 == "fpr" && wanted { print $10; wanted = 0 }')"
    if [[ $found != "$key_fingerprint" ]]; then
        echo "error: the key of $repository is not the one that is wanted" >&2
        echo "    why: its fingerprint is '$found', not '$key_fingerprint'" >&2
        echo "   mend: find out why; where AMD has changed it, set rocm.key_fingerprint" >&2
        exit 1
    fi
}

check_version() {
    local found
    found="$(cat /opt/rocm/.info/version)"
    if [[ $found != "$version" && $found != "$version"-* ]]; then
        echo "error: /opt/rocm holds ROCm $found, not $version" >&2
        echo "   mend: choose rocm.version and ubuntu.version that go together" >&2
        exit 1
    fi
    echo /opt/rocm/lib >/etc/ld.so.conf.d/rocm.conf
    ldconfig
}

case "$provider" in
amd)
    install_from_amd
    check_version
    ;;
image) check_version ;;
debian) ;;
esac

# What LUMI binds: engines that build or run without privileges cannot make the folders later.
mkdir -p /var/spool/slurmd /pfs /scratch /projappl /project /flash /appl /user-software /runscripts

. ./gpu-tools.sh
gpu_tools | while read -r tool; do
    mv "$tool" "$tool.real"
    install --mode 755 one-gfx90a.sh "$tool"
done
