"""Ubuntu 24.04 with its SingularityCE, in a folder, for a user without user namespaces.

Usage: python -m tests.singularityce.system COMMAND...    runs a command there as that user

The engine has its program with setuid, which starts containers without a user namespace, as on
LUMI. Everything that is mounted goes when the command ends. PROOT names a PRoot of this host that
takes the place of Ubuntu's; it runs in the system and, by the engine, in Debian.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from hashlib import sha256
from pathlib import Path

from lumicontainer.host.site import Site, read_site

ROOT = Path(__file__).parents[2]
FOLDER = Path("/var/tmp/lumicontainer-singularityce")
SYSTEM = FOLDER / "root"
KEYRING = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
KEYRING_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
PACKAGES = (
    *("ca-certificates", "curl", "debian-archive-keyring", "debootstrap", "mount", "passwd"),
    *("proot", "python3-venv", "singularity-container", "squashfs-tools"),
)
USER, NUMBER = "builder", 23517
HOME = f"/home/{USER}"
CHECKOUT = "/checkout"
OTHER_PROOT = SYSTEM / "usr/local/bin/proot"
# The root must be a mount: the starter changes its propagation.
_ENTER = """\
mount --bind {system} {system}
cd {system}
mount --rbind /dev dev
mount -t proc proc proc
mount --rbind --make-rslave /sys sys
mount -t tmpfs -o mode=1777 tmpfs tmp
for folder in {folders}; do
    mkdir -p ".$folder"
    mount --bind "$folder" ".$folder"
done
mkdir -p .{checkout}
mount --bind {root} .{checkout}
pivot_root . .
umount -l .
exec "$@"
"""


def make() -> None:
    """Install the system once, with its user."""
    if SYSTEM.exists():
        return
    mirror = os.environ.get("MIRROR") or sys.exit("error: name a mirror of Ubuntu: MIRROR=URL")
    FOLDER.mkdir(exist_ok=True)
    partial = FOLDER / "root.partial"
    subprocess.run(["rm", "-rf", partial], check=True)
    words = ["mmdebstrap", "--mode=root", "--variant=apt", f"--keyring={_keyring(mirror)}"]
    words += ["--aptopt=APT::Install-Recommends false", f"--include={','.join(PACKAGES)}"]
    words += [f"--customize-hook=chroot $1 useradd -m -s /bin/bash -u {NUMBER} {USER}"]
    sources = (f"deb {mirror} {suite} main universe" for suite in ("noble", "noble-updates"))
    subprocess.run([*words, "noble", partial, *sources], check=True)
    partial.rename(SYSTEM)


def _keyring(mirror: str) -> Path:
    """Return the folder of Ubuntu's keys, from its package of this sha256."""
    package = FOLDER / "keyring.deb"
    with urllib.request.urlopen(f"{mirror}/{KEYRING}") as answer:
        package.write_bytes(answer.read())
    digest = sha256(package.read_bytes()).hexdigest()
    if digest != KEYRING_SHA256:
        raise SystemExit(f"error: sha256 of {KEYRING}: expected {KEYRING_SHA256}, got {digest}")
    subprocess.run(["dpkg-deb", "--extract", package, FOLDER / "keyring"], check=True)
    return FOLDER / "keyring/usr/share/keyrings"


def site() -> Site:
    """Return the settings of this host, which the system uses too."""
    return read_site("bookworm")


def start() -> list[str]:
    """Return the start of a command that runs in the system as its user, in an empty /tmp."""
    settings = site()
    shutil.copy("/etc/resolv.conf", SYSTEM / "etc/resolv.conf")
    OTHER_PROOT.unlink(missing_ok=True)
    if named := os.environ.get("PROOT"):
        shutil.copy(named, OTHER_PROOT)
    if settings.trust:
        shutil.copy(settings.trust, SYSTEM / "etc/ssl/certs/ca-certificates.crt")
    places = {"system": SYSTEM, "checkout": CHECKOUT, "root": ROOT}
    quoted = {name: shlex.quote(str(path)) for name, path in places.items()}
    script = _ENTER.format(folders=shlex.join(map(str, settings.folders)), **quoted)
    words = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"]
    words += ["bash", "-euo", "pipefail", "-c", script, "bash", "env", "-i", "-C", "/"]
    words += [f"{name}={value}" for name, value in _environment().items()]
    words += ["python3", f"{CHECKOUT}/tests/deny_namespaces.py"]
    words += ["setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", "--init-groups"]
    return [*words, "env", "-C", HOME]


def _environment() -> dict[str, str]:
    settings = {**site().environment, "LUMICONTAINER_MIRROR": site().mirror}
    path = f"{HOME}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    person = {"HOME": HOME, "USER": USER, "PATH": path, "LANG": "C.UTF-8"}
    return {**settings, **person, "PIP_CERT": "/etc/ssl/certs/ca-certificates.crt"}


if __name__ == "__main__":
    make()
    sys.exit(subprocess.run([*start(), *sys.argv[1:]], check=False).returncode)
