# /// check
# summary: every library that a program or library of the image needs is found, in a version that
#   has what is asked of it
# hint: build the layer again whose file is incomplete; unset LD_LIBRARY_PATH;
#   on LUMI look at lumicontainer binds IMAGE
# ///

import os
import re
from fnmatch import fnmatch

from lumi_inside.checking import failed, note
from lumi_inside.elf.linkage import brought_by_others, unmet
from lumi_inside.elf.loader import VARIABLE, Tree
from lumi_inside.image.contents import contents
from lumi_inside.image.distributions import packages, plain_name

EXCUSED = {
    "*/torch/bin/test_*": "a test of PyTorch's own build, which gives it the libraries' folder",
    "*/torch/test/*": "a test of PyTorch's own build, which gives it the libraries' folder",
}
"""Programs that nobody starts in an image, and why they need not find their libraries."""
IMPORTS = re.compile(r"(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)")


def elf_files():
    """Return each ELF file of the image by its path, and in words those that are damaged."""
    read, damaged = {}, []
    for one in image.walk():
        try:
            found = image.loadable(one)
        except PermissionError:  # root's alone, and this is another user
            continue
        if isinstance(found, str):
            damaged.append(f"{one.path} cannot be loaded: {found}")
        elif found:
            read[one.path] = found
    return read, damaged


def loaded_first(askers):
    """Return who owns each library of a Python package, and whose libraries a package loads first.

    An extension of a package may find libraries of another one only because Python's code has
    imported that before it: DeepSpeed's ops so have PyTorch's.
    """
    owners, modules, sources = {}, {}, {}
    for package in packages():
        name = plain_name(package.name)
        for path, _ in package.files():
            # What a package lists need not be there, nor be whole.
            if path in files:
                owners[path] = name
            elif path.endswith(".py"):
                sources.setdefault(name, []).append(path)
        for module in package.modules():
            modules[module] = name
    wanted = {owners[asker] for asker in askers if asker in owners}
    return owners, {name: imports(sources.get(name, ()), modules) for name in wanted}


def imports(paths, modules):
    """Return the packages that Python files import something of."""
    found = set()
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                names = set(IMPORTS.findall(stream.read()))
        except OSError:
            continue
        found.update(modules[name] for name in names & modules.keys())
    return found


image = contents()
files, damaged = elf_files()
folders = [each for each in os.environ.get(VARIABLE, "").split(":") if each]
missing = unmet(Tree("/", first=folders, reader=image.linked, readlink=image.readlink), files)
excused = [each for each in missing if any(fnmatch(each.asker, path) for path in EXCUSED)]
missing = [each for each in missing if each not in excused]
if missing:
    missing = brought_by_others(missing, *loaded_first({each.asker for each in missing}))
if damaged or missing:
    failed(*damaged, *map(str, missing))
note("excused", [str(each) for each in excused])
needed = sum(len(elf.needed) for elf in files.values())
print(f"{needed} needs of {len(files)} programs and libraries are met, {len(excused)} excused")
