#!/usr/bin/env bash
# Install what is missing on this host to build and run container images: an engine and its helpers.
# Usage: install-engine.sh [USER]     as root, or as an ordinary user with sudo; a second run does nothing
# USER, the present one unless named, gets ranges of ids for namespaces.
set -euo pipefail

# /usr/sbin is not on an ordinary user's PATH on Debian, and debootstrap lives there.
PATH+=:/usr/sbin:/sbin

# A folder of its own, because nothing here belongs to a package of the system: removing it and the links undoes it.
readonly PREFIX=/opt/apptainer
readonly LINKS=/usr/local/bin
readonly MULTIARCH=x86_64-linux-gnu
# Without it debootstrap does not verify Debian's packages, and only warns. Ubuntu's debootstrap does not include it.
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly HERE
readonly USER_SERVED=${1:-$(id -un)}

declare -rA PACKAGE_OF=(
    [mksquashfs]=squashfs-tools [squashfuse]=squashfuse [fuse-overlayfs]=fuse-overlayfs [fusermount3]=fuse3
    [newuidmap]=uidmap [debootstrap]=debootstrap [unshare]=util-linux
)

say() { printf 'install-engine: %s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 3
}

works() { "$1" --version >/dev/null 2>&1; }

missing_packages() {
    local command
    for command in "${!PACKAGE_OF[@]}"; do
        type -P "$command" >/dev/null || printf '%s\n' "${PACKAGE_OF[$command]}"
    done
    [[ -e $KEYRING ]] || printf '%s\n' debian-archive-keyring
}

fuse_open() { [[ $(stat -c %A /dev/fuse 2>/dev/null) == *rw- ]]; }

has_subids() { grep -qsE "^($USER_SERVED|$(id -u "$USER_SERVED")):" "$1"; }

# Said by lumicontainer doctor as well.
require_namespaces() {
    local -a as_user=()
    [[ $USER_SERVED == "$(id -un)" ]] || as_user=(runuser -u "$USER_SERVED" --)
    "${as_user[@]}" unshare --map-root-user true ||
        fail "$USER_SERVED can make no user namespaces: $(<"$HERE/../../system/scripts/no-namespaces.txt")"
}

complete() {
    works singularity && [[ -z $(missing_packages) ]] && fuse_open && has_subids /etc/subuid && has_subids /etc/subgid
}

apt_install() {
    say "installing by apt: $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" >&2
}

has_candidate() { [[ $(LC_ALL=C apt-cache policy "$1") =~ Candidate:\ [^\(] ]]; }

install_engine() {
    local name
    for name in apptainer singularity-container; do
        if has_candidate "$name"; then
            apt_install "$name"
            return
        fi
    done
    [[ $ID == debian ]] || fail "$PRETTY_NAME has neither the package apptainer nor singularity-container." \
        "Install one as its makers describe (on Ubuntu: add-apt-repository ppa:apptainer/ppa), then run this again."
    works "$PREFIX/bin/apptainer" || unpack_engine
    ln -sfn "$PREFIX"/bin/{apptainer,run-singularity} "$LINKS/"
}

# Debian's Apptainer is in sid only, and made for a newer C library than Debian 12 has: both are unpacked into one
# folder, and the two programs are set to use the library there. The system's own library and sources stay as they are.
unpack_engine() {
    [[ $(uname -m) == x86_64 ]] || fail "no Apptainer for $(uname -m) on Debian ${VERSION_ID-}: install one by hand."
    local program
    apt_install libseccomp2 libsqlite3-0 patchelf
    work=$(mktemp -d "$PREFIX.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    chmod 755 "$work"
    download_from_sid "$work/apt" apptainer libc6
    dpkg-deb -x "$work"/apt/apptainer_*.deb "$work/engine"
    dpkg-deb -x "$work"/apt/libc6_*.deb "$work/libc"

    mv "$work/engine/usr" "$work/tree"
    mv "$work/engine/etc" "$work/tree/etc"
    mv "$work/tree/bin/run-singularity.apptainer" "$work/tree/bin/run-singularity"
    # Apptainer finds its files from where its programs really lie: bin/ and libexec/apptainer/bin/ below one folder.
    mv "$work/tree/lib/$MULTIARCH" "$work/tree/libexec"
    ln -s ../libexec "$work/tree/lib/$MULTIARCH"
    mkdir -p "$work/tree/glibc" "$work/tree/var/lib/apptainer/mnt/session"
    cp -a "$work/libc/usr/lib/$MULTIARCH"/*.so* "$work/tree/glibc/"
    # RPATH, not RUNPATH: Apptainer sets LD_LIBRARY_PATH when it unpacks an image, and that would come first.
    for program in bin/apptainer libexec/apptainer/bin/starter; do
        patchelf --set-interpreter "$PREFIX/glibc/ld-linux-x86-64.so.2" \
            --force-rpath --set-rpath "$PREFIX/glibc" "$work/tree/$program"
    done
    rm -rf "$PREFIX"
    mv -T "$work/tree" "$PREFIX"
}

# Fetch packages, signatures checked, with an apt state of its own: no source for sid ever stands on the system.
download_from_sid() {
    local folder=$1 uri sources keyring
    read -r uri sources < <(debian_source) ||
        fail "no source for $PRETTY_NAME main among apt's sources: add its mirror to /etc/apt, then run this again."
    keyring=$(sed -nE 's/.*signed-by[:=] *(\/[^] ,]+).*/\1/I; T; p; q' "$sources")
    mkdir -p "$folder"/{lists,cache}
    printf 'deb [%s] %s sid main\n' "${keyring:+signed-by=$keyring}" "$uri" >"$folder/sources.list"
    local -a apt=(apt-get -qq -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache"
        -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o APT::Sandbox::User=root)
    say "fetching ${*:2} from Debian sid"
    (cd "$folder" && "${apt[@]}" update >&2 && "${apt[@]}" download "${@:2}" >&2) ||
        fail "cannot fetch ${*:2} from sid at $uri: apt's message above says why."
}

# Print the address of the archive that this Debian comes from, and the file that names it.
debian_source() {
    # shellcheck disable=SC2016  # apt expands these
    apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI) $(SOURCESENTRY)' 'Created-By: Packages' |
        awk -v codename="$VERSION_CODENAME" '$1 == "Debian" && $2 == "main" && $3 == codename && !found++ {
            sub(/:[0-9]+$/, "", $5); print $4, $5 }'
}

# udev gives /dev/fuse this mode; a machine without udev leaves it to root.
open_fuse() {
    [[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || true
    [[ -c /dev/fuse ]] || fail "/dev/fuse is missing: load the kernel's fuse module (in a container: start it with --device /dev/fuse)."
    chmod 0666 /dev/fuse
    say "opened /dev/fuse to every user"
}

give_subids() {
    local first
    touch "$1"
    first=$(awk -F: 'BEGIN { free = 100000 } $2 + $3 > free { free = $2 + $3 } END { print free }' "$1")
    printf '%s:%d:65536\n' "$USER_SERVED" "$first" >>"$1"
    say "gave $USER_SERVED the ids from $first on in $1"
}

main() {
    local -a packages
    if complete; then
        require_namespaces
        say "nothing to do: $(singularity --version) and its helpers are there"
        return
    fi
    if ((EUID != 0)); then
        type -P sudo >/dev/null || fail "this needs root: run it as root, or install sudo."
        exec sudo -- "$BASH" "${BASH_SOURCE[0]}" "$USER_SERVED"
    fi
    # shellcheck source=/dev/null
    source /etc/os-release
    mapfile -t packages < <(missing_packages)
    if ! works singularity || ((${#packages[@]})); then
        type -P apt-get >/dev/null || fail "$PRETTY_NAME has no apt-get. Install Apptainer or SingularityCE," \
            "and what holds the commands ${!PACKAGE_OF[*]} and the file $KEYRING, with its own package manager, then run this again."
        apt-get update -qq >&2
    fi
    if ((${#packages[@]})); then apt_install "${packages[@]}"; fi
    works singularity || works apptainer || install_engine
    works singularity || ln -sfn "$(type -P apptainer)" "$LINKS/singularity"
    fuse_open || open_fuse
    has_subids /etc/subuid || give_subids /etc/subuid
    has_subids /etc/subgid || give_subids /etc/subgid
    complete || fail "the engine is installed but does not work: try 'singularity --version'; is $LINKS on PATH?"
    require_namespaces
    say "ready: $(singularity --version)"
}

main
