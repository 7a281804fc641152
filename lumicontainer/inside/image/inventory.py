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


if __name__ == "__main__":
    every = sorted(packages(), key=lambda package: package.name.lower())
    python = {package.name: package.version for package in every}
    json.dump({"system": system_packages(), "python": python}, sys.stdout, indent=1)
    sys.stdout.write("\n")
