# /// check
# summary: every library that a program or library of the image needs is found, in a version that
#   has what is asked of it
# imports: [lumi_inside.image.installed, lumi_inside.image.due, lumi_inside.image.paths]
# reads: [/etc/ld.so.*]
# hint: build the layer again whose file is incomplete; unset LD_LIBRARY_PATH;
#   on LUMI look at lumicontainer binds IMAGE
# ///

import os
import re
from fnmatch import fnmatch

from lumi_inside.checking import failed, note, note_undeclared
from lumi_inside.elf.linkage import brought_by_others, unmet
from lumi_inside.elf.loader import VARIABLE, Tree
from lumi_inside.elf.reader import linked
from lumi_inside.image.distributions import plain_name
from lumi_inside.image.installed import PACKAGES
from lumi_inside.image.paths import PATHS
from lumi_inside.image.walk import loadable

OWN_TEST = "a test of PyTorch's own build, which gives it the libraries' folder"
DEBUGGER = (
    "AMD's debugger asks for the libpython of its builder, and training for neither "
    "(ROCm/ROCgdb issue 32)"
)
PROFILER = (
    "a tool of AMD's profilers, some of whose libraries AMD's packages do not require "
    "(ROCm/ROCm-docker pull request 158, laifs-container-recipes issue 32); training needs none"
)
EXCUSED = {
    "*/torch/bin/test_*": OWN_TEST,
    "*/torch/test/*": OWN_TEST,
    "/opt/rocm*/bin/rocgdb*": DEBUGGER,
    "/opt/rocm*/bin/roccoremerge*": DEBUGGER,
    "/opt/rocm*/lib/librocm-debug-agent.so*": DEBUGGER,
    "/opt/rocm*/bin/rocprof*": PROFILER,
    "/opt/rocm*/libexec/rocprof*": PROFILER,
    "/opt/rocm*/lib/rocprof*/*": PROFILER,
    "/opt/rocm*/lib/librocprof-sys*": PROFILER,
}
"""Files that training does not load, and why they need not find their libraries. The libraries that
HIP and PyTorch load, librocprofiler-register and librocprofiler-sdk, are not among them.
"""
opened = []
IMPORTS = re.compile(r"(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)")


def elf_files():
    """Return each ELF file of the image by its path, and in words those that are damaged."""
    read, damaged = {}, []
    for one in PATHS:
        try:
            found = loadable(one)
        except PermissionError:  # root's alone, and this is another user
            continue
        if isinstance(found, str):
            damaged.append(f"{one.path} cannot be loaded: {found}")
        elif found:
            read[one.path] = found
    return read, damaged


def read_again(path):
    """Return what the loader reads of a file, from the walk if it has seen it."""
    return files.get(path) or linked(path)


def loaded_first(missing):
    """Return who owns each library of a Python package, and whose libraries a package loads first.

    An extension of a package may find libraries of another one only because Python's code has
    imported that before it: DeepSpeed's ops so have PyTorch's.
    """
    owners, sources = {}, {}
    for package in PACKAGES:
        name = plain_name(package.name)
        for path, _ in package.files:
            # What a package lists need not be there, nor be whole.
            if path in files:
                owners[path] = name
            elif path.endswith(".py"):
                sources.setdefault(name, []).append(path)
    sought = {}
    for each in missing:
        if each.asker in owners:
            having = {of for path, of in owners.items() if os.path.basename(path) == each.library}
            sought.setdefault(owners[each.asker], set()).update(having)
    wanted = set().union(*sought.values())
    others = [(plain_name(each.name), each) for each in PACKAGES]
    modules = {each: name for name, of in others if name in wanted for each in of.modules()}
    loads = {name: imports(sources.get(name, ()), modules, of) for name, of in sought.items()}
    return owners, loads


def imports(paths, modules, sought):
    """Return the packages of ``sought`` that Python files import something of."""
    found = set()
    # Most packages import others in their upper folders.
    for path in sorted(paths, key=lambda each: each.count("/")):
        if sought <= found:
            break
        opened.append(path)
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                names = set(IMPORTS.findall(stream.read()))
        except OSError:
            continue
        found.update(modules[name] for name in names & modules.keys())
    return found


files, damaged = elf_files()
folders = [each for each in os.environ.get(VARIABLE, "").split(":") if each]
tree = Tree("/", first=folders, reader=read_again)
missing = unmet(tree, files)
excused = [each for each in missing if any(fnmatch(each.asker, path) for path in EXCUSED)]
missing = [each for each in missing if each not in excused]
if missing:
    missing = brought_by_others(missing, *loaded_first(missing))
if damaged or missing:
    failed(*damaged, *map(str, missing))
reasons = [
    f"{each}: {next(why for path, why in EXCUSED.items() if fnmatch(each.asker, path))}"
    for each in excused
]
note("excused", reasons)
note_undeclared([*tree.configurations, *opened])
needed = sum(len(elf.needed) for elf in files.values())
print(f"{needed} needs of {len(files)} programs and libraries are met, {len(excused)} excused")
