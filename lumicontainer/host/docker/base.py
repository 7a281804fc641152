"""Save the image of a base, or make the tree of a base by debootstrap in a container of an image.

Usage: python -m lumicontainer.host.docker.base SPEC

Debootstrap makes the same base as by an engine, so it has the same key. Only the files that the
engine itself adds, below /.singularity.d, are missing.
"""

import functools
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.constants import EPOCH
from lumicontainer.errors import DownloadError, HostError, LumicontainerError, Problem
from lumicontainer.host.docker.container import Spec, on_host, remove_after, run, serve
from lumicontainer.host.docker.daemon import (
    LABEL,
    own_label,
    read_rows,
    refusals,
    refused_by_daemon,
)
from lumicontainer.host.manifests import SavedImage, parse_variables, write_saved
from lumicontainer.host.registry import save_image
from lumicontainer.image import variables
from lumicontainer.system.terminal.output import say

_TARGET = "/lumicontainer-base"
_DEBOOTSTRAP = """\
set -e
. {site}
export DEBIAN_FRONTEND=noninteractive WGETRC=/tmp/wgetrc
if [ -n "${{SSL_CERT_FILE:-}}" ]; then echo "ca_certificate = $SSL_CERT_FILE" >"$WGETRC"; fi
if ! command -v debootstrap >/dev/null; then
    apt-get -q -o APT::Sandbox::User=root update
    apt-get -q -y -o APT::Sandbox::User=root install --no-install-recommends debootstrap
fi
debootstrap --variant=minbase --exclude=openssl,udev,debconf-i18n,e2fsprogs --arch=amd64 {words}
find {target}/dev -type c -delete
for name in null random urandom zero; do : >{target}/dev/$name; done
"""
"""Apptainer's options, so that the base is the same. Layers have no devices."""
_NEUTRAL = """\
cd "$1"
rm -f .dockerenv
mkdir -p .singularity.d/env .singularity.d/libs
cp "$2" .singularity.d/env/99-base.sh
chmod 755 .singularity.d/env/99-base.sh
for name in hostname resolv.conf; do rm -f etc/$name; : >etc/$name; done
[ -s etc/hosts ] || printf '127.0.0.1 localhost\\n::1 localhost\\n' >etc/hosts
chmod 644 etc/hosts etc/resolv.conf
chmod 755 etc/hostname
"""
"""Docker mounts its own files in /etc while a program runs, so that none can change them. The modes
are those that the engines leave."""
_END = 1024
"""Zero bytes at the end of a tar archive (pax(1))."""
TIMES = {"SOURCE_DATE_EPOCH": str(EPOCH)}
"""By this variable equal bases have equal times in their files."""


class BaseSpec(NamedTuple):
    """Describe a base."""

    image: str
    """The base itself, or what debootstrap runs in."""
    tree: str
    folder: str
    """The folder of the run."""
    site: str = ""
    """The script with the settings of the site, as the container sees it."""
    binds: Mapping[str, str] = {}
    release: str = ""
    """The release for debootstrap; empty if the image is the base."""
    include: Sequence[str] = ()
    mirror: str = ""
    plain: bool = False
    """The registry is asked by http."""
    trust: str = ""
    """The certificates of the site."""


def make(client: Any, words: Sequence[str], fields: Mapping[str, Any]) -> int:
    """Make the tree, or save the image; return the exit status of a program that failed, or 0."""
    assert not words
    spec = BaseSpec(**fields)
    if not spec.release:
        write_saved(Path(spec.folder), _save(client, spec))
        return 0
    _pull(client, spec.image)
    Path(spec.tree).mkdir(mode=0o755, exist_ok=True)
    neutral = ["sh", "-ec", _NEUTRAL, "sh", spec.tree, str(variables.ENGINES_PART)]
    return _debootstrap(client, spec) or run(client, on_host(spec.tree), neutral)


def _save(client: Any, spec: BaseSpec) -> SavedImage:
    """Download an image; take the one of the daemon if its registry does not give it."""
    image, folder = spec.image, Path(spec.folder)
    if "@sha256:" in image and _has(client, image):
        return _export(client, image, folder)
    try:
        trust = Path(spec.trust) if spec.trust else None
        return save_image(image, folder, plain=spec.plain, trust=trust)
    except DownloadError as error:
        if not _has(client, image):
            raise
        _say_kept(image, error)
        return _export(client, image, folder)


def _export(client: Any, image: str, folder: Path) -> SavedImage:
    """Save the files of an image that the daemon has, as one layer."""
    create = functools.partial(
        client.containers.create, image, ["true"], labels={LABEL: own_label()}
    )
    archive = folder / "0.tar"
    with (
        remove_after(create, lambda made: made.remove(v=True)) as made,
        archive.open("wb") as file,
    ):
        file.writelines(made.export())
    _require_whole(archive, image)
    config = {"config": client.images.get(image).attrs.get("Config")}
    return SavedImage([archive], parse_variables(json.dumps(config).encode(), image))


def _require_whole(archive: Path, image: str) -> None:
    """Raise ``HostError`` if an archive has no end: an export has no digest, and may be cut."""
    with archive.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END))
        if any(end := file.read()) or len(end) < _END:
            what, hint = "the Docker daemon did not export the image", "see the daemon's log"
            why = f"its archive of {size} bytes has no end"
            raise HostError(Problem(what, image, why, hint))


def _pull(client: Any, image: str) -> None:
    """Get an image from its registry; a tag may name another image there than here.

    No login is sent, as for bases in other runtimes: the client would run programs that Docker's
    configuration names, without limits.
    """
    if "@sha256:" in image and _has(client, image):
        return
    try:
        with refusals():
            for row in read_rows(client.api.pull(image, stream=True, auth_config={})):
                if error := row.get("error"):
                    raise refused_by_daemon("cannot get the image of the base", str(error))
                if "progress" not in row:
                    say(f"{row.get('id', image)}: {row.get('status', '')}")
    except HostError as error:
        if not _has(client, image):
            why = error.problems[0].why or error.problems[0].what
            hint = f"name a mirror of its registry with --mirror, or: docker pull {image}"
            raise HostError(Problem("cannot get the image of the base", image, why, hint)) from None
        _say_kept(image, error)


def _say_kept(image: str, error: LumicontainerError) -> None:
    why = error.problems[0].why or error.problems[0].what
    say(f"{image}: using the one that the daemon has, because the registry refused: {why}")


def _has(client: Any, image: str) -> bool:
    try:
        with refusals():
            return bool(client.images.get(image))
    except HostError:
        return False


def _debootstrap(client: Any, spec: BaseSpec) -> int:
    include = [f"--include={','.join(spec.include)}"] if spec.include else []
    words = shlex.join([*include, spec.release, _TARGET, spec.mirror])
    script = _DEBOOTSTRAP.format(site=spec.site, words=words, target=_TARGET)
    inside = Spec(
        image=spec.image, environment=TIMES, binds=spec.binds, writes={_TARGET: spec.tree}
    )
    return run(client, inside, ["sh", "-c", script])


if __name__ == "__main__":
    serve(make)
