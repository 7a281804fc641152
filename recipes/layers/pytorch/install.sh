#!/usr/bin/env bash
set -euo pipefail

look_up() {
    python -m pip install --dry-run --ignore-installed --no-deps --quiet --report offer.json \
        "torch==$version" "$@"
}

from_pytorch=(--index-url "$index" --timeout 10 --retries 0)
if look_up "${from_pytorch[@]}"; then
    from=("${from_pytorch[@]}")
else
    echo "no torch $version from $index: asking where pip is configured to look" >&2
    look_up
    from=()
fi
python refuse_cuda.py offer.json "$index"
# Two calls: PyTorch's index has torch's dependencies too, but not always in the versions asked for.
python -m pip install --no-deps "torch==$version" "${from[@]}"
python -m pip install "torch==$version"
