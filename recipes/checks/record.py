# /// check
# summary: the image's records, programs and checks are unchanged since they were sealed
# hint: "rebuild the image; bind nothing over /opt/lumicontainer"
# ///

import hashlib
import os
import sys

from lumi_inside.checking import failed, home
from lumi_inside.image.walk import mounts, walk

MANIFEST = "sha256sums"
"""Written when the image was sealed, in the form of sha256sum."""
ASIDE = ".etc"
"""Where a plain build with PRoot leaves files of /etc on which the engine had mounts."""


def manifest(path):
    try:
        with open(path, encoding="utf-8") as stream:
            rows = [line.rstrip("\n").split("  ", 1) for line in stream]
    except OSError as error:
        sys.exit(f"the image has no record of its files: {error}")
    return {os.path.normpath(name): digest for digest, name in rows}


def digest_of(path):
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError as error:
        return f"not there ({error.strerror})"


top = home()
sealed = manifest(os.path.join(top, MANIFEST))
changed = [
    f"{os.path.join(top, name)} is not what was sealed in the image: {seen[:40]}"
    for name, digest in sealed.items()
    if (seen := digest_of(os.path.join(top, name))) != digest
]
# What is mounted for the time of a run, as the host's libraries, does not belong to the image.
there = {os.path.relpath(one.path, top) for one in walk(top, mounts()) if one.is_file()}
own = {name for name in there if os.path.dirname(name) != ASIDE}
added = [f"{os.path.join(top, name)} was added" for name in sorted(own - {*sealed, MANIFEST})]
if changed or added:
    failed(*changed, *added)
print(f"{len(sealed)} files below {top} are as they were sealed")
