"""Sources are fetched by the very shell that a step runs, from repositories and files made here.

Upstream is a host that does not exist: all comes by mirrors, as at a site without the internet.
"""

import hashlib
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.model import GitSource, Source, UrlSource
from lumicontainer.core.plan.layer_step import fetch_files, fetch_text
from lumicontainer.errors import DOWNLOAD_FAILED, DownloadError
from lumicontainer.host.mirrors import require_guarded

UPSTREAM = "https://upstream.invalid/"
DONE = subprocess.CompletedProcess[str]


class Upstream:
    """Make what lies upstream in a folder, and fetch from it with a mirror."""

    def __init__(self, folder: Path) -> None:
        self.served, self.stage = folder / "served", folder / "stage"
        self.home = folder / "home"
        for path in (self.served, self.stage, self.home):
            path.mkdir()
        self.mirrors = {UPSTREAM: f"file://{self.served}/"}
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def git(self, *words: str, at: Path | None = None, given: str = "") -> str:
        who = {
            f"GIT_{role}_{what}": "x"
            for role in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        when = {f"GIT_{role}_DATE": "1735689600 +0000" for role in ("AUTHOR", "COMMITTER")}
        settings = {**who, **when, "GIT_CONFIG_GLOBAL": "/dev/null"}
        command = ["git", "-c", "protocol.file.allow=always", *words]
        done = self.run(command, settings, cwd=at, input=given)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def run(self, command: Sequence[str], settings: dict[str, str], **options: Any) -> DONE:
        environment = {**self.environment, **settings}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, **options
        )

    def repository(self, name: str, **files: str) -> Path:
        """Make a repository with one commit that is not the tip of any branch."""
        folder = self.served / name
        self.git("init", "--quiet", "--initial-branch=main", str(folder))
        for file, text in files.items():
            (folder / file).write_text(text)
        self.git("add", ".", at=folder)
        self.git("commit", "--quiet", "--message=one", at=folder)
        return folder

    def later(self, folder: Path) -> None:
        """Commit once more, so that what was is history."""
        self.git("commit", "--quiet", "--allow-empty", "--message=two", at=folder)

    def fetch(self, *wanted: Source, enter: Sequence[str] = ()) -> DONE:
        for file in fetch_files(wanted):
            (self.stage / file.name).write_bytes(file.content)
        program = f"set -euo pipefail\n{fetch_text(wanted, str(self.stage))}"
        mirrors = "".join(f"{old} {new}\n" for old, new in self.mirrors.items())
        settings = {"LUMICONTAINER_MIRRORS": mirrors, "TMPDIR": str(self.home)}
        return self.run([*enter, "bash", "-c", program], settings, cwd=self.home)

    def fetched(self, name: str) -> Path:
        return self.stage / "sources" / name


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


@pytest.fixture
def serve(upstream: Upstream) -> Iterator[Callable[[], str]]:
    """Serve what lies upstream over loopback, as a web server serves plain files."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(upstream.served))
    handler.func.log_message = lambda *_: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield lambda: f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def commit_of(upstream: Upstream, folder: Path, revision: str = "HEAD") -> str:
    return upstream.git("rev-parse", revision, at=folder)


def file_of(upstream: Upstream, content: bytes, name: str = "x.tar.gz") -> str:
    (upstream.served / name).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("digits", [40, 12, 7])
def test_a_commit_arrives_as_a_plain_tree(upstream: Upstream, digits: int) -> None:
    folder = upstream.repository("tool", a="first", b="other")
    commit = commit_of(upstream, folder)
    upstream.later(folder)
    (folder / "a").write_text("second")
    upstream.git("commit", "--quiet", "--all", "--message=three", at=folder)
    done = upstream.fetch(GitSource(f"{UPSTREAM}tool", commit[:digits], "tree"))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in upstream.fetched("tree").iterdir()) == ["a", "b"]
    assert (upstream.fetched("tree") / "a").read_text() == "first"
    assert (commit in done.stderr) == (digits < 40), (
        "all digits are printed, so that they can be kept"
    )


def test_a_short_commit_that_two_have_is_refused_with_both(upstream: Upstream) -> None:
    upstream.git("init", "--quiet", "--bare", str(upstream.served / "many"))
    text = "".join(
        f"commit refs/heads/main\ncommitter x <x> {1735689600 + n} +0000\ndata 0\n"
        for n in range(900)
    )
    upstream.git("fast-import", "--quiet", at=upstream.served / "many", given=text)
    commits = upstream.git("rev-list", "main", at=upstream.served / "many").split()
    start, times = Counter(commit[:4] for commit in commits).most_common(1)[0]
    assert times > 1
    done = upstream.fetch(GitSource(f"{UPSTREAM}many", start, "tree"))
    assert done.returncode == DOWNLOAD_FAILED
    assert f"the commit {start} of 'tree' is ambiguous" in done.stderr
    assert all(commit in done.stderr for commit in commits if commit.startswith(start))


@pytest.mark.parametrize("commit", ["0123456", "0123456789" * 4, "HEAD^{tree}"])
def test_a_commit_that_is_not_there_is_reported(upstream: Upstream, commit: str) -> None:
    folder = upstream.repository("tool", a="x")
    commit = commit_of(upstream, folder, commit) if commit.startswith("HEAD") else commit
    done = upstream.fetch(GitSource(f"{UPSTREAM}tool", commit, "tree"))
    assert done.returncode == DOWNLOAD_FAILED
    assert f"has no commit {commit}" in done.stderr
    assert f"where: {UPSTREAM}tool" in done.stderr
    assert not upstream.fetched("tree").exists()


def test_a_repository_that_is_not_there_is_reported_by_its_own_name(upstream: Upstream) -> None:
    done = upstream.fetch(GitSource(f"{UPSTREAM}nothing", "0123456", "tree"))
    assert done.returncode == DOWNLOAD_FAILED
    assert "cannot fetch the repository of 'tree'" in done.stderr
    assert f"where: {UPSTREAM}nothing, from a mirror" in done.stderr
    assert "--mirror FROM=TO" in done.stderr
    assert str(upstream.served) not in done.stderr


def with_submodules(upstream: Upstream) -> Path:
    """Make a repository with one submodule by a whole URL, which itself has one by a relative."""
    upstream.repository("deep", c="deep")
    inner = upstream.repository("inner", b="inner")
    upstream.git("submodule", "add", "--quiet", str(upstream.served / "deep"), "deep", at=inner)
    upstream.git("config", "--file=.gitmodules", "submodule.deep.url", "../deep", at=inner)
    upstream.git("commit", "--quiet", "--all", "--message=submodule", at=inner)
    outer = upstream.repository("outer", a="outer")
    upstream.git("submodule", "add", "--quiet", str(inner), "lib/inner", at=outer)
    upstream.git(
        "config", "--file=.gitmodules", "submodule.lib/inner.url", f"{UPSTREAM}inner", at=outer
    )
    upstream.git("commit", "--quiet", "--all", "--message=submodule", at=outer)
    upstream.later(inner)
    return outer


@pytest.mark.parametrize("submodules", [(), ("lib/inner",)], ids=["none", "one of two"])
def test_only_named_submodules_are_fetched(upstream: Upstream, submodules: tuple[str, ...]) -> None:
    outer = with_submodules(upstream)
    other = upstream.repository("other", d="other")
    upstream.git("submodule", "add", "--quiet", str(other), "lib/other", at=outer)
    upstream.git("commit", "--quiet", "--all", "--message=other", at=outer)
    commit = commit_of(upstream, outer)
    done = upstream.fetch(GitSource(f"{UPSTREAM}outer", commit, "tree", submodules=submodules))
    assert done.returncode == 0, done.stderr
    found = {path.name for path in upstream.fetched("tree").rglob("*") if path.is_file()}
    assert found == {"a", ".gitmodules"} | ({"b", "c"} if submodules else set())


def test_a_submodule_that_has_no_mirror_stops_the_step(upstream: Upstream) -> None:
    outer = with_submodules(upstream)
    upstream.mirrors = {f"{UPSTREAM}outer": f"file://{outer}"}
    wanted = GitSource(
        f"{UPSTREAM}outer", commit_of(upstream, outer), "tree", submodules=("lib/inner",)
    )
    upstream.environment["https_proxy"] = "http://127.0.0.1:9"
    done = upstream.fetch(wanted)
    assert done.returncode == DOWNLOAD_FAILED
    assert "cannot fetch a submodule of 'tree'" in done.stderr
    assert not upstream.fetched("tree").exists()


def test_a_repository_of_plain_files_on_a_web_server_serves(
    upstream: Upstream, serve: Callable[[], str]
) -> None:
    folder = upstream.repository("tool", a="first")
    commit = commit_of(upstream, folder)
    upstream.later(folder)
    upstream.git("update-server-info", at=folder)
    upstream.mirrors = {f"{UPSTREAM}tool": f"{serve()}tool/.git"}
    done = upstream.fetch(GitSource(f"{UPSTREAM}tool", commit, "tree"))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in upstream.fetched("tree").iterdir()] == ["a"]


def test_neither_the_user_s_git_nor_the_environment_decides_its_origin(
    upstream: Upstream,
) -> None:
    right = upstream.repository("right", a="right")
    upstream.repository("wrong", a="wrong")
    wrong = f'[url "file://{upstream.served}/wrong"]\n\tinsteadOf = {UPSTREAM}right\n'
    (upstream.home / ".gitconfig").write_text(wrong)
    upstream.environment |= {
        "GIT_CONFIG_GLOBAL": str(upstream.home / ".gitconfig"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{upstream.served}/wrong.insteadOf",
        "GIT_CONFIG_VALUE_0": f"{UPSTREAM}right",
    }
    done = upstream.fetch(GitSource(f"{UPSTREAM}right", commit_of(upstream, right), "tree"))
    assert done.returncode == 0, done.stderr
    assert (upstream.fetched("tree") / "a").read_text() == "right"
    assert (upstream.home / ".gitconfig").read_text() == wrong


def test_without_a_mirror_nothing_but_https_is_spoken(upstream: Upstream) -> None:
    folder = upstream.repository("tool", a="x")
    digest = file_of(upstream, b"x")
    upstream.mirrors = {}
    for wanted in (
        GitSource(f"file://{folder}", commit_of(upstream, folder), "tree"),
        UrlSource(f"file://{upstream.served}/x.tar.gz".replace("file", "FILE"), "x", digest),
    ):
        done = upstream.fetch(wanted)
        assert done.returncode == DOWNLOAD_FAILED
        assert "protocol" in done.stderr.lower() or "transport" in done.stderr.lower(), done.stderr


@pytest.mark.parametrize("by", ["file", "http"])
def test_a_file_arrives_when_its_hash_is_right(
    upstream: Upstream, serve: Callable[[], str], by: str
) -> None:
    digest = file_of(upstream, b"\0content\n")
    upstream.mirrors = {UPSTREAM: serve()} if by == "http" else upstream.mirrors
    done = upstream.fetch(UrlSource(f"{UPSTREAM}x.tar.gz", "here.tgz", digest))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert upstream.fetched("here.tgz").read_bytes() == b"\0content\n"


def test_a_file_with_another_hash_is_not_used(upstream: Upstream) -> None:
    digest = file_of(upstream, b"changed")
    done = upstream.fetch(UrlSource(f"{UPSTREAM}x.tar.gz", "x.tgz", "0" * 64))
    assert done.returncode == DOWNLOAD_FAILED
    assert f"expected {'0' * 64}, got {digest}" in done.stderr
    assert not upstream.fetched("x.tgz").exists()


def test_a_file_that_is_not_pinned_is_reported_with_its_hash(upstream: Upstream) -> None:
    digest = file_of(upstream, b"any")
    done = upstream.fetch(UrlSource(f"{UPSTREAM}x.tar.gz", "x.tgz"))
    assert done.returncode == 0, done.stderr
    assert f"not pinned; its sha256 is {digest}" in done.stderr
    assert upstream.fetched("x.tgz").read_bytes() == b"any"


@pytest.mark.parametrize("by", ["file", "http"])
def test_a_file_that_is_missing_is_reported_by_its_own_name(
    upstream: Upstream, serve: Callable[[], str], by: str
) -> None:
    upstream.mirrors = {UPSTREAM: serve()} if by == "http" else upstream.mirrors
    done = upstream.fetch(UrlSource(f"{UPSTREAM}gone.tgz", "x.tgz", "0" * 64))
    assert done.returncode == DOWNLOAD_FAILED
    assert "cannot download 'x.tgz'" in done.stderr
    assert f"where: {UPSTREAM}gone.tgz, from a mirror" in done.stderr
    assert ("404" in done.stderr) == (by == "http")
    assert not upstream.fetched("x.tgz").exists()


def test_of_two_mirrors_the_longer_prefix_counts(upstream: Upstream) -> None:
    (upstream.served / "special").mkdir()
    digest = file_of(upstream, b"right", "special/x.tgz")
    folder = upstream.repository("special/tool", a="right")
    upstream.mirrors = {
        f"{UPSTREAM}group/": f"file://{upstream.served}/special/",
        UPSTREAM: "file:///nowhere/",
        f"{UPSTREAM}gro": "file:///nowhere/else/",
    }
    done = upstream.fetch(
        UrlSource(f"{UPSTREAM}group/x.tgz", "x.tgz", digest),
        GitSource(f"{UPSTREAM}group/tool", commit_of(upstream, folder), "tree"),
    )
    assert done.returncode == 0, done.stderr
    assert upstream.fetched("x.tgz").read_bytes() == b"right"
    assert (upstream.fetched("tree") / "a").read_text() == "right"


@pytest.mark.parametrize("name", ["it's", "$(touch${IFS}pwned)", "a;b&c", "`id`", "-rf", "*"])
def test_characters_of_the_shell_are_only_characters(upstream: Upstream, name: str) -> None:
    folder = upstream.repository(name, a="x")
    digest = file_of(upstream, b"x", f"{name}.tgz")
    upstream.mirrors = {f"{UPSTREAM}{name}": f"file://{folder}"}
    upstream.mirrors[f"{UPSTREAM}files/"] = f"file://{upstream.served}/"
    done = upstream.fetch(
        GitSource(f"{UPSTREAM}{name}", commit_of(upstream, folder), "tree"),
        UrlSource(f"{UPSTREAM}files/{name}.tgz", f"x {name}", digest),
    )
    assert done.returncode == 0, done.stderr
    assert upstream.fetched(f"x {name}").read_bytes() == b"x"
    assert not list(upstream.home.glob("pwned"))


def test_the_image_must_have_what_fetches(upstream: Upstream, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "mktemp", "rm", "tail"):
        (tools / tool).symlink_to(
            next(Path(f) / tool for f in ("/usr/bin", "/bin") if (Path(f) / tool).exists())
        )
    upstream.environment["PATH"] = str(tools)
    for wanted, tool in (
        (GitSource("https://x", "0" * 40, "a"), "git"),
        (UrlSource("https://x", "a"), "curl"),
    ):
        done = upstream.fetch(wanted)
        assert done.returncode == DOWNLOAD_FAILED
        assert f"the image has no {tool}, which fetches 'a'" in done.stderr
        assert f"add {tool} and ca-certificates to packages.apt" in done.stderr


def test_everything_has_the_time_of_the_image_and_nothing_else_is_left(upstream: Upstream) -> None:
    folder = upstream.repository("tool", a="x", b="y")
    upstream.environment["SOURCE_DATE_EPOCH"] = "1735689600"
    done = upstream.fetch(GitSource(f"{UPSTREAM}tool", commit_of(upstream, folder), "tree"))
    assert done.returncode == 0, done.stderr
    times = {
        path.stat().st_mtime
        for path in (upstream.fetched("tree"), *upstream.fetched("tree").iterdir())
    }
    assert times == {1735689600.0}
    assert list(upstream.home.iterdir()) == []


def test_a_full_disk_is_reported_as_what_it_is(upstream: Upstream) -> None:
    digest = file_of(upstream, bytes(4 << 20))
    small = 'mount -t tmpfs -o size=1m small "$TMPDIR" && exec "$@"'
    enter = ["unshare", "--map-root-user", "--mount", "sh", "-c", small, "sh"]
    done = upstream.fetch(UrlSource(f"{UPSTREAM}x.tar.gz", "x.tar.gz", digest), enter=enter)
    assert done.returncode == DOWNLOAD_FAILED
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    "mirror",
    ["http://mirror.invalid/", "http://127.0.0.1@mirror.invalid/", "http://127.0.0.10.invalid/"],
)
def test_what_nothing_pins_is_not_taken_by_plain_http(upstream: Upstream, mirror: str) -> None:
    upstream.mirrors = {UPSTREAM: mirror}
    for source in (UrlSource(f"{UPSTREAM}x", "x"), GitSource(f"{UPSTREAM}x", "0123456", "x")):
        done = upstream.fetch(source)
        assert done.returncode == DOWNLOAD_FAILED
        assert "error: 'x' was not fetched: nothing pins it" in done.stderr
        assert "add its sha256 (a commit of 40 digits), or use a mirror with https" in done.stderr
        with pytest.raises(DownloadError, match="cannot download a source without a hash"):
            require_guarded(f"{UPSTREAM}x", upstream.mirrors)


def test_what_a_hash_pins_may_come_by_plain_http(
    upstream: Upstream, serve: Callable[[], str]
) -> None:
    """The server is the proxy here, and takes the whole address for a path."""
    (upstream.served / "http:/mirror.invalid").mkdir(parents=True)
    digest = file_of(upstream, b"pinned", "http:/mirror.invalid/x")
    upstream.mirrors = {UPSTREAM: "http://mirror.invalid/"}
    upstream.environment["http_proxy"] = serve()
    done = upstream.fetch(UrlSource(f"{UPSTREAM}x", "x", digest))
    assert done.returncode == 0, done.stderr
    assert upstream.fetched("x").read_bytes() == b"pinned"
