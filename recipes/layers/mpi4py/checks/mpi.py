# /// check
# proves: mpi4py uses the image's own MPICH
# mend: build the layer mpi4py again; unset LD_LIBRARY_PATH and LD_PRELOAD in the image
# ///

import shutil
import sys
from pathlib import Path

from mpi4py import MPI

library = MPI.Get_library_version()
print(library.splitlines()[0].replace("\t", " "))
if not library.startswith("MPICH"):
    sys.exit(f"mpi4py found another library than MPICH: {library}")

with open("/proc/self/maps", encoding="utf-8") as maps:
    loaded = {line.split()[-1] for line in maps if "/libmpi" in line}
print("\n".join(sorted(loaded)))
compiler = shutil.which("mpicc")
if compiler is None:
    sys.exit("there is no mpicc, so nothing tells which MPI is the image's")
prefix = Path(compiler).resolve().parent.parent
strange = sorted(path for path in loaded if not path.startswith(f"{prefix}/lib"))
if strange:
    sys.exit(f"mpi4py loads an MPI library that is not the image's: {', '.join(strange)}")
