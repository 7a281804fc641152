"""Find what the sources of layers are: all digits of commits, and the hashes of files."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lumicontainer.core.model.source import GIT, IMAGE, URL, Input
from lumicontainer.core.shipped import DOWNLOAD
from lumicontainer.host.git import whole_commit
from lumicontainer.host.mirrors import mirrored, require_guarded
from lumicontainer.host.registry import pinned_image
from lumicontainer.host.site import Site
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import temporary_folder

ORIGINS = {
    IMAGE: ("its registry", "its registry did not return its digest"),
    GIT: ("its repository", "its repository did not return the commit"),
    URL: ("a download", "it could not be downloaded"),
}
"""By kind: the origin of a pin, and the reason why an input has none."""


def current_pin(request: Input, site: Site) -> str:
    """Ask the origin of an input, whose kind is in ``ORIGINS``, for its pin."""
    if request.kind == IMAGE:
        return pinned_image(request.name, site.mirrors, site.trust)
    require_guarded(request.name, site.mirrors)
    if request.kind == GIT:
        return whole_commit(request.name, request.stated, site.mirrors, site.trust)
    return sha256_of(request.name, site.mirrors, site.trust)


def sha256_of(url: str, mirrors: Mapping[str, str], trust: Path | None = None) -> str:
    """Return the sha256 of what is downloaded from a URL; raise ``ProgramError`` if it fails."""
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        file = Path(folder) / "file"
        mirror = mirrored(url, mirrors).encode()
        command = ["bash", str(DOWNLOAD), str(file)]
        env = {**os.environ, **({"CURL_CA_BUNDLE": str(trust)} if trust else {})}
        stdin = mirror + b"\n"
        done = process.in_new_session(command, env=env, stdin=stdin, limits=budget.DOWNLOAD)
        if done.returncode:
            raise process.ProgramError(["curl"], done.returncode, done.stderr)
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
