#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt

# Downloading a source package runs its setup.py for the metadata: without isolation, as the build below.
python -m pip download --no-deps --no-build-isolation --no-binary horovod \
    --require-hashes --requirement requirements.txt
tar --extract --file "horovod-$version.tar.gz"
for change in cxx17 gcc13 no-debug-info; do
    patch --directory "horovod-$version" --strip 1 <"$change.patch"
done

export HOROVOD_CMAKE="$build/cmake/data/bin/cmake"
export HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1
for framework in pytorch tensorflow mxnet; do
    case " $frameworks " in
        *" $framework "*) export "HOROVOD_WITH_${framework^^}=1" ;;
        *) export "HOROVOD_WITHOUT_${framework^^}=1" ;;
    esac
done
export MAKEFLAGS="-j$jobs"
python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "./horovod-$version"
