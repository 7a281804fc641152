"""Write the variables of an image of a registry where engines read them."""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

ENGINES_PART = Path(__file__).parent / "scripts/99-base.sh"
"""The script that an engine's own bootstrap adds to a base, as far as images need it."""
PLACE = ".singularity.d/env/10-docker2singularity.sh"
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def script(variables: Iterable[str]) -> str:
    """Return the shell script that sets variables (NAME=VALUE) that the user did not set.

    As with Apptainer and SingularityCE (their conveyorPacker_oci.go), an empty variable counts as
    not set, and PATH is always set. Their own double quotes change or break some values.
    """
    text = "#!/bin/sh\n"
    for variable in variables:
        name, _, value = variable.partition("=")
        if _NAME.fullmatch(name):
            default = f'[ -n "${{{name}-}}" ] || ' if name != "PATH" else ""
            text += f"{default}export {name}={shlex.quote(value)}\n"
    return text
