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
from lumi_inside.elf.reader import UnreadableError, linked
from lumi_inside.image.distributions import packages, plain_name
from lumi_inside.image.files import walk

EXCUSED = {
    "*/torch/bin/test_*": "a test of PyTorch's own build, which gives it the libraries' folder",
    "*/torch/test/*": "a test of PyTorch's own build, which gives it the libraries' folder",
}
"""Programs that nobody starts in an image, and why they need not find their libraries."""
MAGIC = b"\x7fELF"
SHORTEST = 64
"""Bytes of an ELF file's header."""
LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
PROGRAMS = ("bin", "sbin")
"""Folders of programs: elsewhere an empty file may well be marked as one that can be started."""
OTHER = ("another processor",)
"""What is said of a file for another processor, such as code for a GPU."""
IMPORTS = re.compile(r"(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)")


def hollow(one):
    """Return in words why a file that should be loadable is none; nothing where it may be another.

    A copy that broke off leaves a file empty, or filled with zeros. A short text named like a
    library is a script of the linker.
    """
    folder, name = os.path.split(one.path)
    library = LIBRARY.search(name)
    if not one.stat.st_size:
        program = os.path.basename(folder) in PROGRAMS and one.stat.st_mode & 0o111
        return "it is empty" if library or program else ""
    if not library:
        return ""
    with open(one.path, "rb", buffering=0) as stream:
        return "it holds zeros where an ELF file begins" if stream.read(4) == bytes(4) else ""


def elf_files():
    """Return each ELF file of the image by its path, and in words those that are damaged."""
    read, damaged = {}, []
    for one in walk():
        # To look into each of the others takes longer than all the rest.
        loadable = one.stat.st_mode & 0o111 or ".so" in os.path.basename(one.path)
        if not one.is_file() or not loadable:
            continue
        try:
            if why := hollow(one):
                damaged.append(f"{one.path} cannot be loaded: {why}")
            if one.stat.st_size < SHORTEST:
                continue
            with open(one.path, "rb", buffering=0) as stream:
                if stream.read(len(MAGIC)) != MAGIC:
                    continue
            read[one.path] = linked(one.path)
        except PermissionError:  # root's alone, and this is another user
            continue
        except UnreadableError as error:
            if not any(words in str(error) for words in OTHER):
                damaged.append(f"{one.path} cannot be loaded: {error}")
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


files, damaged = elf_files()
folders = [each for each in os.environ.get(VARIABLE, "").split(":") if each]
missing = unmet(Tree("/", first=folders, reader=linked), files)
excused = [each for each in missing if any(fnmatch(each.asker, path) for path in EXCUSED)]
missing = [each for each in missing if each not in excused]
if missing:
    missing = brought_by_others(missing, *loaded_first({each.asker for each in missing}))
if damaged or missing:
    failed(*damaged, *map(str, missing))
note("excused", [str(each) for each in excused])
needed = sum(len(elf.needed) for elf in files.values())
print(f"{needed} needs of {len(files)} programs and libraries are met, {len(excused)} excused")
