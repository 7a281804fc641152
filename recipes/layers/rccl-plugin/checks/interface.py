# /// check
# summary: RCCL finds its network plugin by the name that it asks for, knows its interface, and
#   the plugin takes the image's libfabric
# hint: rebuild the layers slingshot and rccl-plugin, with versions that go with this RCCL;
#   unset NCCL_NET_PLUGIN and LD_LIBRARY_PATH
# ///

import ctypes
import os
import re
from pathlib import Path

from lumi_inside.checking import failed, record
from lumi_inside.elf.linkage import unmet
from lumi_inside.elf.loader import VARIABLE, Library, Tree

ASKED = "NCCL_NET_PLUGIN"
RCCL, PLUGIN, FABRIC = "librccl.so.1", "librccl-net.so", "libfabric.so.1"
INTERFACE = re.compile(r"ncclNet(?:Plugin)?_v[0-9]+")


def asked():
    """Return the name of the plugin that RCCL opens: the user's, the platform's, or its own."""
    rows = record("platform.json").get("variables", ())
    given = [row.get("value", "") for row in rows if row["name"] == ASKED]
    name = os.environ.get(ASKED) or (given[0] if given else "") or PLUGIN
    return name if ".so" in name else f"librccl-net-{name}.so"


def number(interface):
    return int(interface.rpartition("_v")[2]), interface


folders = [each for each in os.environ.get(VARIABLE, "").split(":") if each]
tree = Tree("/", first=folders)
name = asked()
plugin, rccl, fabric = (tree.find(each) for each in (name, RCCL, FABRIC))
if plugin is None:
    failed(f"the loader finds no {name}, which RCCL asks for: it would go through sockets")
if rccl is None:
    failed(f"the loader finds no {RCCL}: there is nothing that would take the plugin")
if fabric is None:
    failed(f"the loader finds no {FABRIC}, through which the plugin sends")

known = set(INTERFACE.findall(Path(tree.file(rccl.path)).read_bytes().decode("latin-1")))
offered = {each for each in plugin.elf.defined if INTERFACE.fullmatch(each)}
common = sorted(offered & known, key=number)
theirs = ", ".join(sorted(offered, key=number)) or "none"
if not common:
    wants = ", ".join(sorted(known, key=number)) or "none"
    failed(f"{plugin.path} offers the interfaces {theirs}, and {rccl.path} knows {wants}")
missing = unmet(tree, {plugin.path: plugin.elf})
if missing:
    failed(*map(str, missing))
if FABRIC not in plugin.elf.needed:
    failed(f"{plugin.path} is not linked with {FABRIC}")
taken = tree.find(FABRIC, (Library(plugin.name, plugin.path, plugin.elf),))
if tree.file(taken.path) != tree.file(fabric.path):
    failed(f"{plugin.path} takes {taken.path}, and the image's libfabric is {fabric.path}")
ctypes.CDLL(name)
print(f"{plugin.path}: {theirs}; RCCL takes {common[-1]}; libfabric is {fabric.path}")
