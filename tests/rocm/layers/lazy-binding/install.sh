#!/usr/bin/env bash
set -euo pipefail

site="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
echo 'import os, sys; sys.setdlopenflags(os.RTLD_LAZY)' >"$site/lazy-binding.pth"
