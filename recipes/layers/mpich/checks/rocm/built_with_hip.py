# /// check
# summary: MPICH is built with HIP and goes through the image's libfabric
# hint: rebuild the layer mpich, after rocm and slingshot
# ///

import subprocess
import sys

from lumi_inside.checking import resolved, skipped

layer = resolved()["layers"]["mpich"]
if layer["parameters"]["provider"] == "wheel":
    skipped("the recipe has the wheel of MPICH: without HIP, with its own libfabric")

said = subprocess.run(["mpichversion"], check=True, capture_output=True, text=True).stdout
print(said)
if layer["version"] not in said:
    sys.exit(f"mpichversion does not print {layer['version']}")
for wanted in ("ch4:ofi", "--with-hip", "--with-libfabric=/usr"):
    if wanted not in said:
        sys.exit(f"MPICH was configured without {wanted}")

library = "/usr/lib/x86_64-linux-gnu/libmpi.so.12"
needed = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
for wanted in ("libfabric.so.1", "libamdhip64.so"):
    if wanted not in needed:
        sys.exit(f"{library} is not linked with {wanted}")
missing = [line.split()[0] for line in needed.splitlines() if "not found" in line]
if missing:
    sys.exit(f"not found for {library}: {', '.join(missing)}")
