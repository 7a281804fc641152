"""Put the packages of extensions before the image's; Python's ``site`` runs this at each start.

An extension is a squashfs with ``lib/pythonX.Y/site-packages``. Those that are a layer of the image
are in /opt/user-software, mounted ones are /user-software, /user-software-2 and so on. Later ones
win. Not PYTHONPATH: every Python would read it, and lines of .pth files would not run.
"""

from __future__ import annotations

import os
import site
import sys

STARTED = "extensions"  # the name under which the .pth file runs this file
LAYERS = "/opt/user-software"
MOUNT = "user-software"


def folders(root: str = "/") -> list[str]:
    """Return the folders of extensions, in the order in which later ones win."""
    layers = os.path.join(root, LAYERS[1:])
    in_layers = [os.path.join(layers, name) for name in sorted(_names(layers))]
    mounted = [name for name in _names(root) if name == MOUNT or name.startswith(f"{MOUNT}-")]
    return in_layers + [os.path.join(root, name) for name in sorted(mounted)]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def add(packages: str, root: str = "/") -> None:
    """Add the packages of extensions to Python's path, before the folder ``packages``."""
    part = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])
    place = sys.path.index(packages) if packages in sys.path else len(sys.path)
    for folder in folders(root):
        added = os.path.join(folder, part)
        if os.path.isdir(added):
            end = len(sys.path)
            site.addsitedir(added)  # It also runs the lines of .pth files there.
            new = sys.path[end:]
            del sys.path[end:]
            sys.path[place:place] = new


if __name__ == STARTED:
    add(globals()["packages"])
