#!/usr/bin/env bash
set -euo pipefail

# PyTorch's headers include those of AMD's mathematical libraries. The libraries have gigabytes, and nothing links them.
headers=(
    libhipblas libhipblas-common libhipblaslt libhipcub libhiprand libhipsolver libhipsparse librocblas librocprim librocrand
    librocthrust libmiopen
)
cd "$TMPDIR"
apt-get update
apt-get download "${headers[@]/%/-dev}"
for package in *.deb; do
    dpkg-deb --extract "$package" /
done
cd -

# That of the Python index is for CUDA. The pinned release has no wheel for the CPU there.
python -m pip install --no-deps "torch==$version"
site="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
python drop_cuda.py "$site"
python stand_in.py "$hip"
