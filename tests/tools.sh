#!/usr/bin/env bash
# Install the programs that tests call and that no other script installs.
set -euo pipefail
# shellcheck disable=SC2034  # services.sh uses it
readonly SERVICE=tools
# shellcheck source=tests/services.sh
source "$(dirname "${BASH_SOURCE[0]}")/services.sh"

wanted=()
for program in bzip2 curl docker-registry git gpg gpg-agent patch podman proot skopeo strace umoci zsh zstd; do
    type -P "$program" >/dev/null || wanted+=("${program/gpg*/gnupg}")
done
type -P ip >/dev/null || wanted+=(iproute2)
compgen -G '/usr/lib/llvm-*/bin/clang-offload-bundler' >/dev/null || wanted+=(clang-tools)
# A Linux that runs as a program, to serve and mount NFS in.
type -P linux.uml >/dev/null || wanted+=(user-mode-linux)
type -P exportfs >/dev/null || wanted+=(nfs-kernel-server)
type -P mkfs.ext4 >/dev/null || wanted+=(e2fsprogs)
# The browser that lays reports out: Ubuntu has it as a snap alone, which starts in no container.
if grep -qx 'ID=debian' /etc/os-release; then
    type -P chromium >/dev/null || wanted+=(chromium)
fi
# What Lmod and Environment Modules need, which tests/modules.sh unpacks.
type -P tclsh >/dev/null || wanted+=(tcl)
lua5.3 -e 'require "posix"; require "lfs"; require "term"; require "json"' 2>/dev/null ||
    wanted+=(lua5.3 lua-filesystem lua-json lua-posix lua-term)
for program in gcc g++ make; do
    type -P "$program" >/dev/null || wanted+=(build-essential)
done
[[ -e /usr/include/stdio.h ]] || wanted+=(libc6-dev)
if ((${#wanted[@]} == 0)); then exit; fi
as_root "$@"
type -P apt-get >/dev/null || {
    say "error: ${wanted[*]} missing and there is no apt-get: install them, then run this again."
    exit 3
}
say "installing ${wanted[*]} by apt"
apt-get update -qq >&2
apt_install "${wanted[@]}"
