# /// check
# proves: RCCL finds its network plugin, and the plugin loads with the image's libfabric
# mend: build the layers slingshot and rccl-plugin again
# ///

import ctypes
import re
import subprocess
import sys
from pathlib import Path

plugin = Path("/usr/lib/x86_64-linux-gnu/librccl-net.so")
if not plugin.exists():
    sys.exit(f"there is no {plugin}: RCCL would go through sockets")
needed = subprocess.run(["ldd", plugin], check=True, capture_output=True, text=True).stdout
missing = [line.split()[0] for line in needed.splitlines() if "not found" in line]
if missing:
    sys.exit(f"{plugin} lacks {', '.join(missing)}")
if "libfabric.so.1" not in needed:
    sys.exit(f"{plugin} is not linked with libfabric")

ctypes.CDLL(str(plugin))
interfaces = sorted(set(re.findall(rb"ncclNetPlugin_v\d+|ncclNet_v\d+", plugin.read_bytes())))
print(f"{plugin.resolve().name}: {b' '.join(interfaces).decode()}")
if not interfaces:
    sys.exit(f"{plugin} offers RCCL no interface")
