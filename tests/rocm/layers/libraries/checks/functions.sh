#!/bin/sh
# /// check
# summary: the libraries of Python packages with code for GPUs find each function that they call
# hint: choose versions of the package and of ROCm that go together
# ///
set -eu

site="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
status=0
for library in "$site"/bitsandbytes/*.so; do
    # The dynamic linker binds every function, and prints what it does not find.
    found="$(ldd -r "$library" 2>&1)"
    if echo "$found" | grep -E 'undefined symbol|not found'; then
        status=1
    fi
    echo "$library: $(echo "$found" | grep -c '=>') libraries"
done
exit $status
