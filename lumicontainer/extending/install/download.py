"""Download the files of packages on the host, where no code of theirs runs, and check each hash.

They are kept in the user's cache by their sha256. No container can write there, and each file is
hashed again before it is used.
"""

import hashlib
import netrc
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from threading import Event
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from lumicontainer.cache.downloads import FOLDER, note_use
from lumicontainer.core.shipped import DOWNLOAD
from lumicontainer.errors import DownloadError, HostError, Problem
from lumicontainer.extending.lock.locked import RemoteFile
from lumicontainer.host.site import Site
from lumicontainer.system import budget, process
from lumicontainer.system.budget import LimitError, Total
from lumicontainer.system.files.partial import log_of, partial_file, remove_leftovers
from lumicontainer.system.files.regular import open_no_link, open_regular
from lumicontainer.system.files.trust import make_private_folders
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.files.write import replace
from lumicontainer.system.terminal.masking import without_password

_AT_ONCE = 8
_CURL = "install the package curl"
_NAME = re.compile(r"[A-Za-z0-9][\w.+!-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def download(files: Iterable[RemoteFile], folder: Path, site: Site) -> dict[RemoteFile, Path]:
    """Put files into ``folder`` by their names.

    Raises ``DownloadError`` if one does not come, or if they are too large together.
    """
    store, total, stop = cache_root() / FOLDER, Total(budget.PACKAGES), Event()
    make_private_folders(store)

    def put(file: RemoteFile) -> Path:
        if not _NAME.fullmatch(file.name) or not _SHA256.fullmatch(file.sha256):
            raise DownloadError(Problem("a lock has an invalid file", repr(file.name)))
        kept, place = store / file.sha256, folder / file.sha256 / file.name
        place.parent.mkdir(exist_ok=True)
        with suppress(OSError):
            put_file(kept, place)
            note_use(kept)
        if _is_proven(place, file.sha256):
            _count(total, place.stat().st_size)
        else:
            _fetch(file, kept, place, site, _Arrival(total, stop))
        return place

    unique = dict.fromkeys(files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = {file: pool.submit(put, file) for file in unique}
        try:
            for each in as_completed(futures.values()):
                each.result()
        except BaseException:  # Ctrl-C, or the first failure.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {file: future.result() for file, future in futures.items()}


class _Arrival:
    """Count the bytes of a file as they arrive, in each attempt."""

    def __init__(self, total: Total, stop: Event) -> None:
        self._total, self._stop, self._seen = total, stop, 0

    def count(self, file: Path) -> None:
        """Count what has arrived since the last call.

        Raises ``DownloadError`` at the limit, or when another file has failed.
        """
        if self._stop.is_set():
            raise DownloadError(Problem("the download was stopped", str(file)))
        size = file.stat().st_size if file.exists() else 0
        new = size - self._seen if size >= self._seen else size
        self._seen = size
        _count(self._total, new)


def _count(total: Total, size: int) -> None:
    try:
        total.count(size)
    except LimitError as error:
        what, hint = "cannot download the packages", "add fewer packages, or smaller ones"
        raise DownloadError(Problem(what, why=str(error), hint=hint)) from error


def _is_proven(path: Path, sha256: str) -> bool:
    with suppress(OSError), open_no_link(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    return False


def _fetch(file: RemoteFile, kept: Path, place: Path, site: Site, arrival: _Arrival) -> None:
    """Download a file into the cache; it gets its ``place`` first, as a prune may remove it."""
    shown = without_password(file.url)
    remove_leftovers(kept)
    with partial_file(kept) as partial:
        arrival.count(partial)
        if file.url.startswith("file:"):
            _copy(Path(unquote(urlsplit(file.url).path)), partial)
        else:
            address = with_password(file.url, site.pip)
            done = _run_curl(address, partial, site, lambda: arrival.count(partial))
            if done.returncode:
                why, hint = done.stderr.strip(), "repeat the command when the server answers"
                raise DownloadError(Problem(f"cannot download {file.name}", shown, why, hint))
        arrival.count(partial)
        if not _is_proven(partial, file.sha256):
            what, why = f"{file.name} does not match its sha256", f"expected {file.sha256}"
            hint = "repeat the command; if it stays so, the index is damaged or was changed"
            raise DownloadError(Problem(what, shown, why, hint))
        put_file(partial, place)
        replace(partial, kept)


def _run_curl(url: str, file: Path, site: Site, watch: Callable[[], None]) -> process.Finished:
    if process.find("curl") is None:
        raise HostError(Problem("cannot download packages: curl not found", hint=_CURL))
    command, address = ["bash", str(DOWNLOAD), str(file)], f"{url}\n".encode()
    try:
        return process.in_new_session(
            command, env=_environment(site), stdin=address, limits=budget.DOWNLOAD, watch=watch
        )
    finally:
        log_of(file).unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    try:
        with open_regular(source) as read, target.open("wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
    except OSError as error:
        why, hint = error.strerror or str(error), "repeat the command when the folder is there"
        raise DownloadError(Problem("cannot read a package", str(source), why, hint)) from error


def put_file(file: Path, place: Path) -> None:
    """Put a file in a second place. Containers only read it, so that both may be one file."""
    place.unlink(missing_ok=True)
    try:
        os.link(file, place)
    except OSError:  # On another file system, or links are not allowed.
        shutil.copyfile(file, place)


def _environment(site: Site) -> dict[str, str]:
    trust = {"CURL_CA_BUNDLE": str(site.trust)} if site.trust else {}
    return {**os.environ, **trust}


def with_password(url: str, pip: Mapping[str, str]) -> str:
    """Return a URL with its user and password: of an index of pip's settings, or of .netrc."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return url
    login = _login_of_index(parts, pip)
    if not login and parts.scheme == "https":
        login = _login_of_user(parts.hostname or "")
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}")) if login else url


def _login_of_index(parts: SplitResult, pip: Mapping[str, str]) -> str:
    for word in " ".join(pip.get(key, "") for key in ("index-url", "extra-index-url")).split():
        index = urlsplit(word)
        login, _, host = index.netloc.rpartition("@")
        if login and (index.scheme, host) == (parts.scheme, parts.netloc):
            return login
    return ""


def _login_of_user(host: str) -> str:
    """Return what the user's .netrc has for a host, as pip and uv read it."""
    with suppress(OSError, netrc.NetrcParseError):
        if login := netrc.netrc().authenticators(host):
            user, _, password = login
            return f"{quote(user, safe='')}:{quote(password or '', safe='')}"
    return ""
