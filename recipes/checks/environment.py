# /// check
# summary: the variables that the recipe and the platform promise are set to their values, and
#   every mount point of the platform's binds is there
# hint: unset the variable outside; rebuild an image without mount points
# start_modes: [run, shell, cleanenv, containall, no-home, umask]
# ///

import json
import os
import subprocess

from lumi_inside.checking import failed, home, record, resolved

ENTRY = os.path.join(home(), "bin/lumi-entry")
ENGINE = "/.singularity.d/libs"
"""The folder that Singularity and Apptainer append to LD_LIBRARY_PATH."""
SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def variables(layers):
    """Yield in words the variables of the layers that are not set, or to another value."""
    promised, lists = {}, set()
    for layer, row in layers.items():
        promised.update({name: (value, layer) for name, value in row["environment"].items()})
        lists.difference_update(row["environment"])
        for name, folders in row.get("prepend", {}).items():
            behind = [promised[name][0]] if name in promised else []
            promised[name] = ":".join([*folders, *behind]), layer
            lists.add(name)
    for name, (value, layer) in promised.items():
        seen = os.environ.get(name)
        if name in lists and seen and seen.startswith(f"{value}:"):
            continue
        if name == "LD_LIBRARY_PATH" and seen:
            seen = seen.removesuffix(f":{ENGINE}")
        if seen is None:
            yield f"{name} is not set; the layer {layer} promises {value!r}"
        elif seen != value:
            yield f"{name} is {seen!r}; the layer {layer} promises {value!r}"


def path(layers):
    """Yield in words what is wrong with PATH: the layers' folders stand before the system's."""
    seen = os.environ.get("PATH", "").split(":")
    system = min((seen.index(each) for each in SYSTEM if each in seen), default=len(seen))
    for layer, row in layers.items():
        for folder in row.get("path", ()):
            if folder not in seen:
                yield f"PATH has no {folder}, which the layer {layer} promises"
            elif seen.index(folder) > system:
                yield f"{folder} of the layer {layer} stands behind the system's folders in PATH"
    missing = [each for each in ("/usr/bin", "/bin") if each not in seen]
    if missing:
        yield f"PATH has no {', '.join(missing)}"


def entry(platform):
    """Yield in words which variables of the platform lumi-entry does not set to their values.

    Those with conditions depend on the node; the user's own values win.
    """
    command = [ENTRY, "--print-env", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        yield f"{' '.join(command)} fails: {done.stderr.strip()}"
        return
    rows = json.loads(done.stdout)["variables"]
    told = {row["name"]: row["value"] for row in rows if row["value"] is not None}
    for row in platform.get("variables", ()):
        always = "value" in row and not row.get("when")
        seen = told.get(row["name"])
        if always and seen != row["value"] and row["name"] not in os.environ:
            promised = f"the platform promises {row['value']!r}"
            yield f"lumi-entry sets {row['name']} to {seen!r}; {promised}"


def mount_points(resolved, platform):
    """Yield in words the mount points that an engine would have to make."""
    for each in (*(row["path"] for row in resolved.get("binds", ())), *platform.get("binds", ())):
        if not os.path.lexists(each):
            yield f"there is no {each} in the image, which the platform binds"


image = resolved()
platform = record("platform.json")
layers = image["layers"]
problems = [
    *variables(layers),
    *path(layers),
    *entry(platform),
    *mount_points(image, platform),
]
if "PYTHONHOME" in os.environ:
    problems.append("PYTHONHOME is set: the image's Python would look for its library there")
if problems:
    failed(*problems)
print(f"{sum(len(row['environment']) for row in layers.values())} variables are as promised")
