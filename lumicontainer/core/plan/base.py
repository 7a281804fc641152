"""Write the shell text that changes a base after its bootstrap."""

import shlex

from lumicontainer.core.model import Bootstrap
from lumicontainer.errors import DOWNLOAD_FAILED

# The logs hold the time and the host of the build. The cache of ldconfig holds inodes, which are
# wrong in another place.
_OF_BOOTSTRAP = ("/debootstrap", "/var/cache/apt/*", "/var/lib/apt/lists/*")
_CACHES = (
    *("/var/lib/apt/lists/*", "/var/cache/apt/*", "/var/cache/debconf/*-old"),
    "/var/cache/ldconfig/aux-cache",
)
_LOGS = ("/var/log/apt", "/var/log/dpkg.log", "/var/log/alternatives.log", "/var/log/bootstrap.log")
REMOVED = dict.fromkeys((*_OF_BOOTSTRAP, *_CACHES, *_LOGS))
"""The paths, as patterns of the shell, that a base does not keep."""
_TRACES = f"""\
: >/etc/hostname
{{sources}}rm -rf {" ".join(_OF_BOOTSTRAP)}
"""

# Apt's own example of sources is the distribution's default: the mirror that debootstrap writes
# down belongs to the site of the build.
_SOURCES = """\
if [ -e /usr/share/doc/apt/examples/sources.list ]; then
    cp /usr/share/doc/apt/examples/sources.list /etc/apt/sources.list
fi
"""
CLEAN = f"rm -rf {' '.join(_CACHES)}\nrm -rf {' '.join(_LOGS)}\n"
PACKAGES = "dpkg-query --show --showformat='${Package}=${Version}\\n' | LC_ALL=C sort"
"""Lists the packages of a base."""
_OTHER_PACKAGES = """\
error: the base is made of other packages than its lock says
    why: the mirror of Debian has changed since
   hint: lock the recipe again, or name a mirror of that time: LUMICONTAINER_MIRROR=URL
"""
_WRITABLE = """\
for file in /opt/venv/read-only.txt /usr/lib/python3*/EXTERNALLY-MANAGED; do
    if grep -qs 'lumicontainer extend' "$file"; then
        rm -f "$file"
        case "$file" in /opt/venv/*) rm -f /opt/venv/pip.conf ;; esac
    fi
done
"""
"""Lets layers install packages on an image of ours, whose pip refuses (inside.image.extensible)."""


def after_bootstrap(bootstrap: Bootstrap) -> str:
    """Return the shell text that finishes a base which is a separate layer."""
    own = _WRITABLE if bootstrap.file else ""
    return f"umask 022\n{same_packages(bootstrap.packages)}{own}{remove_traces(bootstrap)}{CLEAN}"


def remove_traces(bootstrap: Bootstrap) -> str:
    """Return shell text that removes the traces of the host from a base."""
    return _TRACES.format(sources=_SOURCES if bootstrap.by_debootstrap else "")


def same_packages(sha256: str) -> str:
    """Return shell text that fails if the list of a base's packages has another hash."""
    if not sha256:
        return ""
    return (
        f'found="$({PACKAGES} | sha256sum)"\n'
        f'if [ "${{found%% *}}" != {sha256} ]; then\n'
        f"    printf '%s' {shlex.join([_OTHER_PACKAGES])} >&2\n"
        f"    exit {DOWNLOAD_FAILED}\nfi\n"
    )
