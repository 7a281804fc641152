#!/usr/bin/env bash
set -euo pipefail

# By name, so that pip records no folder of the build as where they came from.
wanted=("torch==$version")
for wheel in "$sources"/*.whl; do
    name="${wheel##*/}"
    name="${name%%-*}"
    [[ $name == torch ]] || wanted+=("$name")
done
python -m pip install --no-deps --no-index --find-links "$sources" "${wanted[@]}"

# The wheel brings a ROCm of its own. Its RCCL finds neither the image's libfabric nor the network plugin, and
# falls back to sockets. Building torch with USE_SYSTEM_NCCL=1 mends that and takes hours, for a wheel whose hash
# nobody else can compare; the wheel finds its libraries by their names, so links to the image's do the same.
# HIP and what lies below it goes with RCCL: MPI and RCCL load the image's, and a second HIP in one process knows
# nothing of the first one's memory. The mathematical libraries stay: they belong to kernels beside them.
image=/opt/rocm/lib
own="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/torch/lib"
linked=" "
for library in librccl libamdhip64 libhsa-runtime64 libhiprtc libamd_comgr librocprofiler-register librocm_smi64; do
    ours=("$image/$library".so*)
    bundled=("$own/$library".so*)
    if [[ -e ${ours[0]} && -e ${bundled[0]} ]]; then
        for file in "${bundled[@]}"; do
            ln --symbolic --force "${ours[0]}" "$file"
        done
        linked+="$library "
    fi
done
for library in librccl libamdhip64 libhsa-runtime64; do
    if [[ $linked != *" $library "* ]]; then
        echo "error: torch $version would not use the image's $library" >&2
        echo "    why: it is missing in $own or in $image" >&2
        echo "   hint: put the layer 'rocm' before 'pytorch', and choose versions that go together" >&2
        exit 1
    fi
done
