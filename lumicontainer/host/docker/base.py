"""Make the tree of a base from an image, or by debootstrap in a container of an image.

Usage: python -m lumicontainer.host.docker.base SPEC

Debootstrap makes the same base as by an engine, so it has the same key. Only the files that the
engine itself adds, below /.singularity.d, are missing.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.constants import EPOCH
from lumicontainer.errors import HostError, Problem
from lumicontainer.host.docker.container import Spec, on_host, run, serve
from lumicontainer.host.docker.daemon import refusals
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
"""The options are those of Apptainer, so that the base is the same. Layers have no devices."""
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
_ENGINES_PART = Path(__file__).parent / "scripts/99-base.sh"
_TIMES = {"SOURCE_DATE_EPOCH": str(EPOCH)}
"""By this variable equal bases have equal times in their files."""


class BaseSpec(NamedTuple):
    """Describe a base."""

    image: str
    """The base itself, or what debootstrap runs in."""
    tree: str
    folder: str
    """The folder of the run."""
    program: str
    """The shell program that a new base goes through."""
    site: str = ""
    """The script with the settings of the site, as the container sees it."""
    binds: Mapping[str, str] = {}
    release: str = ""
    """The release for debootstrap; empty if the image is the base."""
    include: Sequence[str] = ()
    mirror: str = ""


def make(client: Any, words: Sequence[str], fields: Mapping[str, Any]) -> int:
    """Make the tree; return the exit status of the program that failed, or 0."""
    assert not words
    spec = BaseSpec(**fields)
    _pull(client, spec.image)
    Path(spec.tree).mkdir(mode=0o755, exist_ok=True)
    fill = _debootstrap if spec.release else _export
    neutral = ["sh", "-ec", _NEUTRAL, "sh", spec.tree, str(_ENGINES_PART)]
    inside = Spec(root=spec.tree, environment=_TIMES, drop=["MKNOD"])
    return (
        fill(client, spec)
        or run(client, on_host(spec.tree), neutral)
        or run(client, inside, ["bash", "-euo", "pipefail", "-c", spec.program])
    )


def _pull(client: Any, image: str) -> None:
    """Get an image from its registry; a tag may name another image there than here."""
    if "@sha256:" in image and _has(client, image):
        return
    try:
        with refusals():
            for row in client.api.pull(image, stream=True, decode=True):
                if error := row.get("error"):
                    raise HostError(Problem(error))
                if "progress" not in row:
                    say(f"{row.get('id', image)}: {row.get('status', '')}")
    except HostError as error:
        why = error.problems[0].why or error.problems[0].what
        if not _has(client, image):
            hint = f"name a mirror of its registry with --mirror, or: docker pull {image}"
            raise HostError(Problem("cannot get the image of the base", image, why, hint)) from None
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
        image=spec.image, environment=_TIMES, binds=spec.binds, writes={_TARGET: spec.tree}
    )
    return run(client, inside, ["sh", "-c", script])


def _export(client: Any, spec: BaseSpec) -> int:
    made, archive = client.containers.create(spec.image, ["true"]), Path(spec.folder) / "base.tar"
    try:
        with archive.open("wb") as file:
            file.writelines(made.export())
    finally:
        made.remove(v=True)
    unpack = ["tar", "--extract", "--numeric-owner", "--exclude=dev/*", "-f", str(archive)]
    status = run(client, on_host(spec.tree), [*unpack, "-C", spec.tree])
    archive.unlink()
    return status or _environment(client, spec)


def _environment(client: Any, spec: BaseSpec) -> int:
    """Write the variables of an image where the engines read them."""
    text = variables.script(client.images.get(spec.image).attrs["Config"]["Env"] or ())
    write = 'mkdir -p "${1%/*}" && rm -rf "$1" && printf %s "$2" >"$1" && chmod 755 "$1"'
    file = f"{spec.tree}/{variables.PLACE}"
    return run(client, on_host(spec.tree), ["sh", "-c", write, "sh", file, text])


if __name__ == "__main__":
    serve(make)
