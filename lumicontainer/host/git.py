"""Ask and fetch repositories of git on the host. No code of theirs runs: no hook and no filter."""

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from lumicontainer.core.shipped import FETCH
from lumicontainer.errors import DownloadError, HostError, Problem
from lumicontainer.host.mirrors import VARIABLE, mirror_lines, mirrored
from lumicontainer.host.site import Site
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import temporary_folder
from lumicontainer.system.terminal.masking import without_password
from lumicontainer.system.terminal.reported import reported_problem

_LIMITED = """\
[ "$(ulimit -S -f)" != unlimited ] || ulimit -S -f "$0"
[ "$(ulimit -S -v)" != unlimited ] || ulimit -S -v "$1"
shift
exec "$@"
"""
"""Git has no limit of what it receives: a pack, which is one file, and names, in memory."""

_WHOLE = re.compile("[0-9a-f]{40}")
_DIGITS = re.compile("[0-9a-f]{4,39}")
_EVERY_SUBMODULE = "."
_UNTRUSTED = re.compile(r"(?im)^.*(?:certificate verif|certificate problem|certificate subject).*$")
"""How git reports a certificate, by GnuTLS or OpenSSL (git 2.34 to 2.50)."""


class Repository(NamedTuple):
    """Hold a repository, and how to run git for it."""

    url: str
    """The URL to fetch from, which may be a mirror's."""
    folder: Path
    """A folder for a copy, which is removed afterwards."""
    git: Callable[..., str]


def whole_commit(
    url: str, commit: str, mirrors: Mapping[str, str], trust: Path | None = None
) -> str:
    """Return all 40 digits of a repository's commit; raise ``DownloadError`` unless one fits."""
    with _open_repository(url, mirrors, trust) as at:
        _copy_history(at)
        bare = str(at.folder)
        names = at.git("-C", bare, "rev-parse", f"--disambiguate={commit}").split()
        commits = [
            each for each in names if at.git("-C", bare, "cat-file", "-t", each) == "commit\n"
        ]
    if len(commits) != 1:
        what = f"the commit {commit} is ambiguous" if commits else f"there is no commit {commit}"
        raise DownloadError(Problem(what, url, hint="correct the commit"))
    return commits[0]


def resolve_revision(
    url: str, revision: str, mirrors: Mapping[str, str], trust: Path | None = None
) -> str:
    """Return the commit of a branch, a tag or digits of a commit; of the main branch if empty.

    As in pip a branch comes before a tag of the same name, and ``refs/pull/7/head`` is itself.
    Raises ``DownloadError`` if the repository has none of them.
    """
    if _WHOLE.fullmatch(revision):
        return revision
    names = [revision or "HEAD"]
    if revision and not revision.startswith("refs/"):
        names = [f"refs/heads/{revision}", f"refs/tags/{revision}"]
    names = [each for name in names for each in (f"{name}^{{}}", name)]
    advertised = _read_names(url, names, mirrors, trust)
    for name in names:
        if name in advertised and _WHOLE.fullmatch(advertised[name]):
            return advertised[name]
    if _DIGITS.fullmatch(revision):
        return whole_commit(url, revision, mirrors, trust)
    what = f"the repository has no branch or tag '{revision or 'HEAD'}'"
    raise DownloadError(Problem(what, url, hint="name a branch, a tag or a commit behind the '@'"))


def _read_names(
    url: str, names: Sequence[str], mirrors: Mapping[str, str], trust: Path | None
) -> dict[str, str]:
    """Return the commits of a repository's branches and tags, by their whole names."""
    try:
        with _open_repository(url, mirrors, trust) as at:
            printed = at.git("ls-remote", "--", at.url, *names)
    except process.ProgramError as error:
        why, hint = error.problems[0].why, "name a clone of a private one: ./FOLDER"
        raise DownloadError(_problem_of(url, "cannot read the repository", why, hint)) from error
    return {name: commit for commit, _, name in (x.partition("\t") for x in printed.splitlines())}


def describe_commit(
    url: str, commit: str, mirrors: Mapping[str, str], trust: Path | None = None
) -> str:
    """Return how git describes a commit by the tag before it; empty if no tag is before it."""
    with _open_repository(url, mirrors, trust) as at:
        _copy_history(at)
        try:
            words = ("describe", "--tags", "--long", "--match=*[0-9]*", commit)
            return at.git("-C", str(at.folder), *words).strip()
        except process.ProgramError:
            return ""


def fetch_tree(url: str, commit: str, folder: Path, site: Site, say: Callable[[str], None]) -> Path:
    """Return a new folder with the files of a commit and of its submodules, and nothing of git.

    ``say`` gets warnings. Raises ``HostError`` if this host has no git, and ``DownloadError`` if a
    part does not come.
    """
    require_git()
    name = repository_name(url)
    command = ["bash", str(FETCH), "git", url, commit, name, _EVERY_SUBMODULE]
    settings = {VARIABLE: mirror_lines(site.mirrors), "sources": str(folder), "TMPDIR": str(folder)}
    if site.trust:
        settings["GIT_SSL_CAINFO"] = str(site.trust)
    environment = {**_environment(folder, url), **settings}
    done = process.in_new_session(command, env=environment, limits=budget.DOWNLOAD)
    if done.returncode:
        unread = _problem_of(url, f"cannot fetch the repository of '{name}'", done.stderr)
        known = None if _UNTRUSTED.search(done.stderr) else reported_problem(done.stderr)
        raise DownloadError(known or unread)
    for line in done.stderr.splitlines():
        if line.startswith("warning: "):
            say(line)
    return folder / name


def _problem_of(url: str, what: str, printed: str, hint: str = "") -> Problem:
    """Return why a repository does not come; a certificate that is not trusted is named."""
    if untrusted := _UNTRUSTED.search(printed):
        what = f"the certificate of {urlsplit(url).netloc.rpartition('@')[2]} is not trusted"
        hint = "if it is your site's, name the file of its CA: pip config set global.cert FILE"
        return Problem(what, url, untrusted[0].strip(), hint)
    hint = "; ".join(filter(None, ("check the URL and the network", hint)))
    return Problem(what, url, process.last_lines(printed), hint)


def require_git() -> None:
    """Raise ``HostError`` if this host has no git."""
    if process.find("git") is None:
        hint = "install git, or load its module"
        raise HostError(Problem("git not found; it fetches the repository", "PATH", hint=hint))


def repository_name(url: str) -> str:
    """Return the last part of the URL of a repository."""
    name = urlsplit(url).path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return name if re.fullmatch(r"[A-Za-z0-9][\w.-]*", name) else "repository"


@contextmanager
def _open_repository(
    url: str, mirrors: Mapping[str, str], trust: Path | None
) -> Iterator[Repository]:
    """Yield a repository that git asks with settings of ours alone; ``trust`` is the site's CA."""
    with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
        mirror, home = mirrored(url, mirrors), Path(folder)
        (home / ".gitconfig").write_text(_settings(budget.SOURCE))
        mirror = _set_password_apart(mirror, home)
        environment = _environment(home, mirror)
        if trust:
            environment["GIT_SSL_CAINFO"] = str(trust)

        def git(*words: str) -> str:
            limits = (str(each >> 10) for each in (budget.SOURCE.most, budget.GIT_MEMORY))
            command = ["bash", "-c", _LIMITED, *limits, "git", *words]
            done = process.in_new_session(command, env=environment, limits=budget.DOWNLOAD)
            if done.returncode:
                raise process.ProgramError(["git"], done.returncode, done.stderr)
            return done.stdout

        yield Repository(mirror, home / "bare", git)


def _copy_history(at: Repository) -> None:
    at.git("clone", "--quiet", "--bare", "--filter=tree:0", "--", at.url, str(at.folder))


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


def _environment(home: Path, source: str) -> dict[str, str]:
    """Return an environment in which neither the user's nor the system's git settings count."""
    dropped = re.compile(r"(?!GIT_SSL_CAINFO\Z)(GIT_|XDG_CONFIG)")
    kept = {name: value for name, value in os.environ.items() if not dropped.match(name)}
    own = {"HOME": str(home), "GIT_ALLOW_PROTOCOL": f"https:{source.partition(':')[0]}"}
    own |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    return kept | own
