"""List what is installed in the image this runs in: system packages and Python distributions."""

import json
import subprocess
import sys
from typing import Dict

from .distributions import packages


def system_packages() -> Dict[str, str]:
    """Return the installed Debian packages with their versions; empty where dpkg is not there."""
    form = "${db:Status-Abbrev}\t${binary:Package}\t${Version}\n"
    try:
        output = subprocess.run(
            ["dpkg-query", "--show", "--showformat", form], stdout=subprocess.PIPE, check=True
        ).stdout
    except FileNotFoundError:
        return {}
    rows = (line.split("\t") for line in output.decode().splitlines())
    return {name: version for status, name, version in rows if status.startswith("ii")}


def python_distributions() -> Dict[str, str]:
    """Return the Python distributions that the container's python3 sees, as it imports them."""
    found = {package.name: package.version for package in packages()}
    return {name: found[name] for name in sorted(found, key=str.lower)}


if __name__ == "__main__":
    inventory = {"system": system_packages(), "python": python_distributions()}
    json.dump(inventory, sys.stdout, indent=1)
    sys.stdout.write("\n")
