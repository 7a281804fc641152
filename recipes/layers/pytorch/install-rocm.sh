#!/usr/bin/env bash
set -euo pipefail

# By name, so that pip does not record a folder of the build as their origin.
wanted=("torch==${version%-cp3*}")
for wheel in "$sources"/*.whl; do
    name="${wheel##*/}"
    name="${name%%-*}"
    [[ $name == torch ]] || wanted+=("$name")
done
python -m pip install --no-deps --no-index --find-links "$sources" "${wanted[@]}"

# The wheel has a ROCm of its own, whose RCCL finds neither the image's libfabric nor the network plugin and
# falls back to sockets. Building torch with USE_SYSTEM_NCCL=1 takes hours, and nobody can compare the hash of
# that wheel. The wheel finds its libraries by their names, so links to the image's have the same effect for RCCL.
# HIP and the libraries below it are replaced too: MPI and RCCL load the image's, and a second HIP in one process
# does not see the first one's memory. The mathematical libraries stay, with the kernels beside them.
image="$ROCM_PATH/lib"
if [[ $ROCM_PATH == /usr ]]; then image=/usr/lib/x86_64-linux-gnu; fi
own="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/torch/lib"
linked=" "
for library in librccl libamdhip64 libhsa-runtime64 libhiprtc libamd_comgr librocprofiler-register librocm_smi64 \
    libamd_smi; do
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

# torch.cuda.utilization() asks amdsmi, which ROCm holds and does not install (ROCm/rocm-systems pull request
# 11452); the index has it, with a hash. It loads the image's library: with a copy of that beside another,
# PyTorch sees no GPU (pytorch issue 186516).
rocm="${version##*+}"
if compgen -G "$image/libamd_smi.so*" >/dev/null; then
    python -m pip install --no-deps --require-hashes --requirement "rocm/amdsmi-${rocm%-cp3*}.txt"
fi
