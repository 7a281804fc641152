# /// check
# summary: libfabric is complete, and has the provider for Slingshot if it was built for it
# hint: rebuild the layer slingshot
# ///

import subprocess
import sys
from pathlib import Path

from lumi_inside.checking import parameters

provider = parameters("slingshot")["provider"]


def said(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} fails: {done.stderr.strip()}")
    return done.stdout


listed = said("fi_info", "--list")
names = [line.removesuffix(":") for line in listed.splitlines() if line[:1].isalpha()]
print(f"providers: {' '.join(names)}")
if "tcp" not in names:
    sys.exit("libfabric has no provider tcp, which a machine without Slingshot needs")

cached = said("ldconfig", "--print-cache").splitlines()
library = next((line.split(" => ")[1] for line in cached if "libfabric.so.1 " in line), "")
if not library:
    sys.exit("the dynamic linker knows no libfabric.so.1")
needed = said("ldd", library)
missing = [line.split()[0] for line in needed.splitlines() if "not found" in line]
if missing:
    sys.exit(f"not found for {library}: {', '.join(missing)}")

if provider == "source":
    # Without a device fi_info may say nothing of the provider, so its linkage decides.
    if "libcxi.so.1" not in needed:
        sys.exit(f"{library} was built without libcxi: it cannot reach Slingshot")
    if not Path("/usr/lib64/libcurl.so.4").exists():
        sys.exit(
            "/usr/lib64/libcurl.so.4 is missing, which libfabric's provider cxi opens by that path"
        )
