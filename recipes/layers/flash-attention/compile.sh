#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt

# Without a list of architectures the build asks a GPU for its own; without FORCE_BUILD it looks for a ready
# wheel, and there is none for ROCm. FLASH_ATTENTION_TRITON_AMD_ENABLE is set by the provider 'triton'.
export BUILD_TARGET=rocm GPU_ARCHS=gfx90a FLASH_ATTENTION_FORCE_BUILD=TRUE
export MAX_JOBS="$jobs"
export PATH="$build/bin:$PATH" PYTHONPATH="$build"

if [[ -e requirements.txt ]]; then
    # Downloading a source package runs its setup.py for the metadata, which would write the kernels' sources.
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE python -m pip download --no-deps --no-build-isolation \
        --no-binary flash-attn --require-hashes --requirement requirements.txt
    tree="$PWD/flash_attn-$version"
    tar --extract --no-same-owner --file "$tree.tar.gz"
else
    tree="$sources/flash-attention"
fi
if [[ $OPT_DIM != 32,64,128,256 ]] && ! grep --quiet OPT_DIM "$tree/setup.py"; then
    echo "error: FlashAttention $version cannot be compiled for the head dimensions $OPT_DIM only" >&2
    echo "    why: its setup.py does not read OPT_DIM, and would compile all of them" >&2
    echo "   hint: leave out flash-attention.OPT_DIM, or set flash-attention.version to 2.8.3 or bbe25ba" >&2
    exit 1
fi
python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "$tree"
