"""Find what the sources of layers are: all digits of commits, and the hashes of files."""

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lumicontainer.core.model.source import GIT, IMAGE, URL, Input
from lumicontainer.core.shipped import DOWNLOAD
from lumicontainer.errors import DownloadError, Problem
from lumicontainer.host.mirrors import mirrored, require_guarded
from lumicontainer.host.registry import pinned_image
from lumicontainer.host.site import Site
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import temporary_folder
from lumicontainer.system.terminal.masking import without_password

ORIGINS = {
    IMAGE: ("its registry", "its registry did not return its digest"),
    GIT: ("its repository", "its repository did not return the commit"),
    URL: ("a download", "it could not be downloaded"),
}
"""By kind: the origin of a pin, and the reason why an input has none."""
_LIMITED = """\
[ "$(ulimit -S -f)" != unlimited ] || ulimit -S -f "$0"
[ "$(ulimit -S -v)" != unlimited ] || ulimit -S -v "$1"
shift
exec "$@"
"""
"""Git has no limit of what it receives: a pack, which is one file, and names, in memory."""


def current_pin(wanted: Input, site: Site) -> str:
    """Ask the origin of an input, whose kind is in ``ORIGINS``, for its pin."""
    if wanted.kind == IMAGE:
        return pinned_image(wanted.name, site.mirrors, site.trust)
    require_guarded(wanted.name, site.mirrors)
    if wanted.kind == GIT:
        return whole_commit(wanted.name, wanted.given, site.mirrors)
    return sha256_of(wanted.name, site.mirrors)


def whole_commit(url: str, commit: str, mirrors: Mapping[str, str]) -> str:
    """Return all 40 digits of a repository's commit; raise ``DownloadError`` unless one fits."""
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        there, home = mirrored(url, mirrors), Path(folder)
        (home / ".gitconfig").write_text(_settings(budget.SOURCE))
        there = _set_password_apart(there, home)
        environment = _environment(home, there)

        def git(*words: str) -> str:
            limits = (str(each >> 10) for each in (budget.SOURCE.most, budget.GIT_MEMORY))
            command = ["bash", "-c", _LIMITED, *limits, "git", *words]
            done = process.in_new_session(command, env=environment, limits=budget.DOWNLOAD)
            if done.returncode:
                raise process.ProgramError(["git"], done.returncode, done.stderr)
            return done.stdout

        bare = str(home / "bare")
        git("clone", "--quiet", "--bare", "--filter=tree:0", "--", there, bare)
        names = git("-C", bare, "rev-parse", f"--disambiguate={commit}").split()
        found = [each for each in names if git("-C", bare, "cat-file", "-t", each) == "commit\n"]
    if len(found) != 1:
        what = f"the commit {commit} is ambiguous" if found else f"there is no commit {commit}"
        raise DownloadError(Problem(what, url, hint="correct the commit"))
    return found[0]


def _settings(limits: budget.Transfer) -> str:
    """Return git's only settings. A repository of another user is read: nothing of it is run."""
    return f"""\
[safe]
	directory = *
[core]
	hooksPath = /dev/null
	fsmonitor = false
	packedGitLimit = 4g
[http]
	lowSpeedLimit = {limits.slowest}
	lowSpeedTime = {limits.window:.0f}
"""


def _set_password_apart(url: str, home: Path) -> str:
    """Return a URL without its password, which git finds in a file: all users see its words."""
    bare = without_password(url)
    if bare != url:
        parts = urlsplit(url)
        store = home / "passwords"
        store.touch(mode=0o600)
        store.write_text(f"{parts.scheme}://{parts.netloc}\n")
        with (home / ".gitconfig").open("a") as settings:
            settings.write(f"[credential]\n\thelper = store --file={shlex.quote(str(store))}\n")
    return bare


def _environment(home: Path, there: str) -> dict[str, str]:
    """Return an environment in which neither the user's nor the system's git settings count."""
    dropped = re.compile(r"(?!GIT_SSL_CAINFO\Z)(GIT_|XDG_CONFIG)")
    kept = {name: value for name, value in os.environ.items() if not dropped.match(name)}
    own = {"HOME": str(home), "GIT_ALLOW_PROTOCOL": f"https:{there.partition(':')[0]}"}
    own |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    return kept | own


def sha256_of(url: str, mirrors: Mapping[str, str]) -> str:
    """Return the sha256 of what is downloaded from a URL; raise ``ProgramError`` where it fails."""
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        file = Path(folder) / "file"
        there = mirrored(url, mirrors).encode()
        command = ["bash", str(DOWNLOAD), str(file)]
        done = process.in_new_session(command, given=there + b"\n", limits=budget.DOWNLOAD)
        if done.returncode:
            raise process.ProgramError(["curl"], done.returncode, done.stderr)
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
