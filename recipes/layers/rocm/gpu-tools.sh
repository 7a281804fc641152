# shellcheck shell=bash
# Which programs ask the driver for the GPUs of this machine: a builder has none, or other ones.

# Print the path of each that is installed, once.
gpu_tools() {
    local name folder tool real
    for name in rocminfo rocm_agent_enumerator amdgpu-arch offload-arch; do
        for folder in /opt/rocm/bin /opt/rocm/lib/llvm/bin /usr/bin /usr/lib/llvm-*/bin; do
            tool="$folder/$name"
            [[ -e $tool ]] || continue
            # A link to another of them is served by its target; one to anything else is replaced itself.
            real="$(readlink --canonicalize "$tool")"
            case "${real##*/}" in
            rocminfo | rocm_agent_enumerator | amdgpu-arch | offload-arch) echo "$real" ;;
            *) echo "$tool" ;;
            esac
        done
    done | sort --unique
}
