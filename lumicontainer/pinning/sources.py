"""Find what the sources of layers are: all digits of commits, and the hashes of files."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lumicontainer.build.workspace import temporary_folder
from lumicontainer.errors import DownloadError, Problem
from lumicontainer.host.mirrors import mirrored
from lumicontainer.system import process
from lumicontainer.system.terminal.masking import without_password


def whole_commit(url: str, commit: str, mirrors: Mapping[str, str]) -> str:
    """Return all 40 digits of a commit that a repository's branches or tags hold.

    Raises ``DownloadError`` where none of its commits begins so, or several do.
    """
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        there, home = mirrored(url, mirrors), Path(folder)
        # A repository of another user is read all the same: nothing of it is run.
        (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
        there = _set_password_apart(there, home)
        environment = _environment(home, there)
        bare = ["git", "-C", str(home / "bare")]
        clone = ["git", "clone", "--quiet", "--bare", "--filter=tree:0", there, str(home / "bare")]
        process.capture(clone, env=environment)
        found = []
        for name in process.capture(
            [*bare, "rev-parse", f"--disambiguate={commit}"], env=environment
        ).split():
            kind = process.capture([*bare, "cat-file", "-t", name], env=environment).strip()
            found += [name] if kind == "commit" else []
    if len(found) != 1:
        what = f"the commit {commit} is ambiguous" if found else f"there is no commit {commit}"
        raise DownloadError(Problem(what, url, hint="correct the commit"))
    return found[0]


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
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "GIT_SSL_CAINFO" or not name.startswith(("GIT_", "XDG_CONFIG"))
    }
    scheme = there.partition(":")[0]
    own = {
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": f"https:{scheme}",
    }
    return kept | own


def sha256_of(url: str, mirrors: Mapping[str, str]) -> str:
    """Return the sha256 of what is downloaded from a URL; raise ``ProgramError`` where it fails."""
    there = mirrored(url, mirrors)
    scheme = there.partition(":")[0]
    protocols = {"file": "=file", "http": "=http,https"}.get(scheme, "=https")
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        file = Path(folder) / "file"
        words = ["--disable", "--fail", "--location", "--globoff", "--silent", "--show-error"]
        words += ["--retry", "4", "--retry-connrefused", "--connect-timeout", "30"]
        words += ["--speed-limit", "1", "--speed-time", "120", "--proto", protocols]
        # By stdin: all users of the host see the words of a command, and a URL may hold a password.
        quoted = there.replace("\\", "\\\\").replace('"', '\\"')
        words += ["--output", str(file), "--config", "-"]
        process.capture(["curl", *words], given=f'url = "{quoted}"\n'.encode())
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
