# /// check
# summary: no Python package has its own RCCL, HIP or HSA next to the image's
# hint: rebuild the layer pytorch, which puts the image's in their places; leave out the
#   package that has one
# ///

import hashlib
import os

from lumi_inside.checking import failed
from lumi_inside.elf.loader import Tree
from lumi_inside.image.distributions import packages

ONCE = {
    "librccl.so": ("librccl.so.1",),
    "libamdhip64.so": ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"),
    "libhsa-runtime64.so": ("libhsa-runtime64.so.1",),
}
"""Libraries of which a process may have one only, and what the image's are called."""


def digest(path):
    with open(path, "rb") as stream:
        return hashlib.sha256(stream.read()).digest()


tree = Tree("/", last=[os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib")])
problems, seen = [], 0
for kind, names in ONCE.items():
    image = next(filter(None, map(tree.find, names)), None)
    if image is None:
        problems.append(f"the image itself has no {names[0]}")
        continue
    own = tree.file(image.path)
    for package in packages():
        for path, _ in package.files:
            if not os.path.basename(path).startswith(kind) or not os.path.lexists(path):
                continue
            seen += 1
            if not os.path.exists(path):
                problems.append(f"{path} of {package.name} leads to {os.readlink(path)}: nothing")
            elif tree.file(path) != own and digest(path) != digest(own):
                problems.append(f"{path} of {package.name} is another library than {own}")
if problems:
    failed(*problems)
print(f"{seen} names in Python packages lead to the image's libraries")
