#!/usr/bin/env bash
# Run lumi-entry and the checks for GPUs on a machine with an NVIDIA GPU, CUDA's compiler and PyTorch:
# tests/gpu/run.sh [CONTENT [RESULTS]]. On any machine `make gpu` writes CONTENT, build/gpu, beforehand. It
# takes less than ten minutes, needs no network, writes RESULTS/results.json, and prints a table at its end.
# Exit codes: 0 all passed, 1 something did not, 3 this machine cannot run it.
set -euo pipefail
content="$(realpath "${1:-build/gpu}")"
results="$(realpath --canonicalize-missing "${2:-build/gpu-results}")"
own="$(realpath "$(dirname "$0")")"
home="${LUMICONTAINER_HOME:-/opt/lumicontainer}"

stop() { # WHAT WHY HINT
    printf 'error: %s\n    why: %s\n   hint: %s\n' "$@" >&2
    exit 3
}

[ -d "$content/lumicontainer" ] || stop "content not found: $content" "make gpu has not been run" "make gpu"
python3 - <<'CODE' || stop "no GPU" "PyTorch of $(command -v python3) can use none" "run it on a machine with an NVIDIA GPU"
import sys
try:
    import torch
except ImportError as error:
    sys.exit(f"PyTorch cannot be imported: {error}")
print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda or 'none'}", file=sys.stderr)
sys.exit(not torch.cuda.is_available())
CODE
if [ -e "$home" ] && [ ! -e "$home/of-tests-gpu" ]; then
    stop "$home exists" "the content of an image would replace it" "set LUMICONTAINER_HOME to a folder that does not exist"
fi

rm -rf "$home" "$results"
mkdir -p "$results" "$(dirname "$home")"
cp -r "$content/lumicontainer" "$home"
touch "$home/of-tests-gpu"
sed -i "1s|.*|#!$(command -v python3) -ISB|" "$home"/bin/*
PIP_NO_INDEX=1 DS_BUILD_OPS=0 python3 -m pip install --quiet --no-deps --no-build-isolation --target "$home/site" \
    "$content"/packages/* >"$results/pip.log" 2>&1 || {
    cat "$results/pip.log" >&2
    stop "DeepSpeed cannot be installed" "pip failed, see above" "make gpu PYTHON_THERE=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
}

export PATH="$home/bin:$PATH" PYTHONPATH="$home/site" PYTHONUNBUFFERED=1
# DeepSpeed reads no architecture with a letter, such as 9.0a; by itself it compiles for the GPU that is here.
unset TORCH_CUDA_ARCH_LIST
export DS_ACCELERATOR=cuda TORCH_EXTENSIONS_DIR="$home/ops" TOKENIZERS_PARALLELISM=false
exec python3 "$own/measure.py" "$home" "$results"
