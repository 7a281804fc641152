"""Run a program in an image file, without an engine, about as Apptainer would.

Usage: python -m lumicontainer.host.docker.check SPEC COMMAND...

The program runs as the current user, with the home folder, the current folder and /tmp of this
host. It has the environment of the user and of the image. The start modes of an engine cannot be
had in this way.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.host.docker.container import Spec, run, serve
from lumicontainer.host.docker.daemon import LABEL, own_label
from lumicontainer.host.docker.image import ImageSpec, load_image
from lumicontainer.system.terminal.masking import is_secret, names_secret

_START = """\
for script in /.singularity.d/env/*.sh; do
    if [ -f "$script" ]; then . "$script"; fi
done
exec "$@"
"""
_ENGINES_OWN = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""The variables of the user that no engine passes on."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CheckSpec(NamedTuple):
    """Describe the image and where it is unpacked."""

    image: str
    """A file."""
    folder: str
    """A private folder, to unpack it in."""
    environment: Mapping[str, str]
    """The variables that override the user's."""


def _is_passed_on(name: str, value: str) -> bool:
    # The daemon keeps and shows what it is given.
    return name not in _ENGINES_OWN and not (names_secret(name) or is_secret(name, value))


def check(client: Any, inside: Sequence[str], fields: Mapping[str, Any]) -> int:
    """Run a program in an image; return its exit status."""
    spec = CheckSpec(**fields)
    places = {str(each): str(each) for each in (Path.home(), Path.cwd(), "/tmp", "/var/tmp")}
    own = {name: value for name, value in os.environ.items() if _is_passed_on(name, value)}
    image = load_image(client, ImageSpec(spec.image, spec.folder, "", {LABEL: own_label()}))
    probe = Spec(
        image=image,
        writes=places,
        user=f"{os.getuid()}:{os.getgid()}",
        folder=str(Path.cwd()),
        environment={**own, "PATH": _PATH, **spec.environment},
    )
    try:
        return run(client, probe, ["sh", "-c", _START, "sh", *inside])
    finally:
        client.images.remove(image, force=True)


if __name__ == "__main__":
    serve(check)
