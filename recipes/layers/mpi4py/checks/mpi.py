# /// check
# summary: mpi4py uses the image's own MPICH
# hint: rebuild the layer mpi4py; unset LD_LIBRARY_PATH and LD_PRELOAD in the image
# ///

import shutil
import sys
from pathlib import Path

from lumi_inside.checking import memory_map
from mpi4py import MPI

HOST = "/opt/lumicontainer/host"
"""Where the libraries lie that come from the host."""

library = MPI.Get_library_version()
print(library.splitlines()[0].replace("\t", " "))
# Cray MPICH, which may take its place on LUMI, has the name in its first line too.
if "MPICH" not in library.splitlines()[0].upper():
    sys.exit(f"mpi4py found another library than MPICH: {library}")

loaded = {line.split()[-1] for line in memory_map().splitlines() if "/libmpi" in line}
print("\n".join(sorted(loaded)))
compiler = shutil.which("mpicc")
if compiler is None:
    sys.exit("mpicc not found: the image's MPI is not known")
prefix = Path(compiler).resolve().parent.parent
own = (prefix / "lib", prefix / "lib/x86_64-linux-gnu", Path(HOST))
strange = sorted(path for path in loaded if Path(path).parent not in own)
if not loaded:
    sys.exit("mpi4py has its own MPI: no libmpi is loaded")
if strange:
    sys.exit(f"mpi4py loads an MPI library that is not the image's: {', '.join(strange)}")
