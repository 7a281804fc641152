"""Print the system packages and Python distributions of this image as JSON."""

import json
import subprocess
import sys

from .distributions import packages


def system_packages() -> dict[str, str]:
    """Return the installed Debian packages with their versions; empty without dpkg."""
    form = "${db:Status-Abbrev}\t${binary:Package}\t${Version}\n"
    try:
        output = subprocess.run(
            ["dpkg-query", "--show", "--showformat", form], stdout=subprocess.PIPE, check=True
        ).stdout
    except FileNotFoundError:
        return {}
    rows = (line.split("\t") for line in output.decode().splitlines())
    return {name: version for status, name, version in rows if status.startswith("ii")}


def python_distributions() -> dict[str, str]:
    """Return the Python distributions that python3 imports, with their versions."""
    found = {package.name: package.version for package in packages()}
    return {name: found[name] for name in sorted(found, key=str.lower)}


if __name__ == "__main__":
    inventory = {"system": system_packages(), "python": python_distributions()}
    json.dump(inventory, sys.stdout, indent=1)
    sys.stdout.write("\n")
