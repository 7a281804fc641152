# /// check
# summary: every package that the recipe names is there in its version, none was changed since
#   the build, and each Python package is whole
# imports: [lumi_inside.image.installed]
# reads: [/opt/venv/*, /usr/*, /var/lib/dpkg/*, /etc/dpkg/*]
# hint: rebuild the image; unset PYTHONPATH, and bind nothing over /opt/venv and /usr
# ///

import os
import re
import stat
import subprocess
import sys

from lumi_inside.checking import failed, note, note_undeclared, record, resolved
from lumi_inside.image.distributions import UNSAID, plain_name
from lumi_inside.image.installed import PACKAGES
from lumi_inside.image.inventory import system_packages

MOST = 10
"""Files that are named for one package."""
PINNED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:==\s*([^\s;,]+))?")


def provided():
    """Return the names that installed packages go by besides their own."""
    command = ["dpkg-query", "--show", "--showformat", "${Provides}\n"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {word.split("(")[0].strip() for line in said.splitlines() for word in line.split(",")}


def same(seen, promised):
    """Return whether a version is the promised one; what follows a + says who built it."""
    return promised in (seen, seen.partition("+")[0]) or (
        promised.endswith(".*") and seen.startswith(promised[:-1])
    )


def promised_python(layers):
    """Yield each Python package with its version, '' for any; a later layer's word counts."""
    found = {}
    for layer, row in layers.items():
        for text in row.get("packages", {}).get("python", ()):
            name, version = PINNED.match(text).groups()
            found[plain_name(name)] = (name, version or "", layer)
    return found.values()


def unkept(layers, python, system):
    """Yield in words what the recipe promises and the image does not have."""
    for name, version, layer in promised_python(layers):
        seen = python.get(plain_name(name))
        if seen is None:
            yield f"the layer {layer} promises the Python package {name}, and it is not installed"
        elif version and not same(seen, version):
            yield f"the layer {layer} promises {name} {version}, and {seen} is installed"
    plain = {name.partition(":")[0]: version for name, version in system.items()}
    others = None
    for layer, row in layers.items():
        for text in row.get("packages", {}).get("apt", ()):
            name, _, version = text.partition("=")
            others = provided() if others is None and name not in plain else others
            if name not in plain and name not in (others or ()):
                yield f"the layer {layer} promises the package {name}, and it is not installed"
            elif version and plain.get(name, version) != version:
                yield f"the layer {layer} promises {name} {version}, and {plain[name]} is installed"


def changed(kind, built, now):
    """Yield in words what is not as it was when the image was built."""
    for name, version in built.items():
        if name not in now:
            yield f"the {kind} {name} {version} was built in, and is not there now"
        elif now[name] != version:
            yield f"the {kind} {name} was built in as {version}, and is {now[name]} now"


def damaged(package):
    """Yield in words which files of a package are not there, or shorter or longer than recorded."""
    wrong = []
    for path, size in package.files:
        try:
            seen = os.lstat(path)
        except OSError:
            # pip compiles these, and a package may have some for other Pythons.
            if not path.endswith(".pyc"):
                wrong.append(f"{path} of the Python package {package.name} is not there")
            continue
        # A link takes the place of a file where a layer put the image's own library there.
        if size not in (UNSAID, seen.st_size) and not stat.S_ISLNK(seen.st_mode):
            is_now = f"has {seen.st_size} bytes, not {size}"
            wrong.append(f"{path} of the Python package {package.name} {is_now}")
    yield from wrong[:MOST]
    if len(wrong) > MOST:
        yield f"… and {len(wrong) - MOST} more files of the Python package {package.name}"


inventory = record("packages.json")
if not inventory:
    sys.exit("the image has no packages.json, which says what was installed in it")
python = {plain_name(each.name): each.version for each in PACKAGES}
system = system_packages()
built = {plain_name(name): version for name, version in inventory["python"].items()}
problems = [
    *unkept(resolved()["layers"], python, system),
    *changed("Python package", built, python),
    *changed("package", inventory["system"], system),
    *(line for package in PACKAGES for line in damaged(package)),
]
if problems:
    failed(*problems)
folders = {os.path.dirname(path) for package in PACKAGES for path, _ in package.files}
note_undeclared(f"{os.path.realpath(folder)}/" for folder in folders)
added = sorted(python.keys() - built.keys())
if added:
    note("added", added)
counted = f"{len(system)} packages and {len(python)} Python packages"
print(f"{counted} are as promised, {len(added)} added")
