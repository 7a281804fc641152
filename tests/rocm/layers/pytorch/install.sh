#!/usr/bin/env bash
set -euo pipefail

# PyTorch's headers include those of AMD's mathematical libraries. The libraries have gigabytes, and nothing links them.
headers=(
    libhipblas libhipblas-common libhipblaslt libhipcub libhiprand libhipsolver libhipsparse librocblas librocprim librocrand
    librocthrust
)
cd "$TMPDIR"
apt-get update
apt-get download "${headers[@]/%/-dev}"
for package in *.deb; do
    dpkg-deb --extract "$package" /
done
cd -

python -m pip install --no-deps "torch==$version+cpu"
python stand_in.py
site="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
for library in c10_hip torch_hip; do
    echo | gcc -shared -x c - -o "$site/torch/lib/lib$library.so"
done
