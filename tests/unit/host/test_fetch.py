"""Sources are fetched by the very shell that a step runs, from repositories and files made here.

Upstream is a host that does not exist: all comes by mirrors, as at a site without the internet.
"""

import hashlib
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.model import GitSource, Source, UrlSource
from lumicontainer.core.plan.layer_step import fetch_files, fetch_text
from lumicontainer.errors import DOWNLOAD_FAILED, DownloadError
from lumicontainer.host.mirrors import require_guarded

pytestmark = pytest.mark.slow

UPSTREAM = "https://upstream.invalid/"
DONE = subprocess.CompletedProcess[str]


class Upstream:
    """Make what lies upstream in a folder, and fetch from it with a mirror."""

    def __init__(self, folder: Path) -> None:
        paths = (folder / "served", folder / "stage", folder / "home")
        self.served, self.stage, self.home = paths
        for path in paths:
            path.mkdir()
        self.mirrors = {UPSTREAM: f"file://{self.served}/"}
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def git(self, *words: str, at: Path | None = None, stdin: str = "") -> str:
        settings = ("user.name=x", "user.email=x", "protocol.file.allow=always")
        options = [word for setting in settings for word in ("-c", setting)]
        environment = {"GIT_CONFIG_GLOBAL": "/dev/null"}
        done = self.run(["git", *options, *words], environment, cwd=at, input=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def run(self, command: Sequence[str], settings: dict[str, str], **options: Any) -> DONE:
        environment = {**self.environment, **settings}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, **options
        )

    def repository(self, name: str, **files: str) -> Path:
        """Make a repository with one commit."""
        folder = self.served / name
        self.git("init", "--quiet", "--initial-branch=main", str(folder))
        for file, text in files.items():
            (folder / file).write_text(text)
        self.git("add", ".", at=folder)
        self.commit(folder)
        return folder

    def commit(self, folder: Path, *options: str) -> str:
        self.git("commit", "--quiet", "--message=x", *options, at=folder)
        return self.head(folder)

    def head(self, folder: Path) -> str:
        return self.git("rev-parse", "HEAD", at=folder)

    def later(self, folder: Path) -> None:
        """Commit once more, so that what was is history."""
        self.commit(folder, "--allow-empty")

    def file(self, content: bytes, name: str = "x.tar.gz") -> str:
        """Write a file upstream and return its digest."""
        (self.served / name).write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def fetch(self, *sources: Source, enter: Sequence[str] = ()) -> DONE:
        for file in fetch_files(sources):
            (self.stage / file.name).write_bytes(file.content)
        program = f"set -euo pipefail\n{fetch_text(sources, str(self.stage))}"
        mirrors = "".join(f"{old} {new}\n" for old, new in self.mirrors.items())
        settings = {"LUMICONTAINER_MIRRORS": mirrors, "TMPDIR": str(self.home)}
        return self.run([*enter, "bash", "-c", program], settings, cwd=self.home)

    def take(self, *sources: Source) -> str:
        """Fetch what can be fetched, and return what stderr has."""
        done = self.fetch(*sources)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def fail(self, source: Source, enter: Sequence[str] = ()) -> str:
        """Fetch what cannot be fetched, and return what stderr has."""
        done = self.fetch(source, enter=enter)
        assert done.returncode == DOWNLOAD_FAILED
        assert list(self.stage.glob("sources/*")) == []
        return done.stderr

    def fetched(self, name: str) -> Path:
        return self.stage / "sources" / name


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder over loopback, as a web server serves plain files; yield its URL."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def web(upstream: Upstream) -> Iterator[str]:
    with serving(upstream.served) as url:
        yield url


@pytest.mark.parametrize(("digits", "by"), [(40, "file"), (12, "file"), (7, "file"), (40, "http")])
def test_a_commit_arrives_as_a_plain_tree(
    upstream: Upstream, web: str, digits: int, by: str
) -> None:
    folder = upstream.repository("tool", a="first", b="other")
    commit = upstream.head(folder)
    upstream.later(folder)
    (folder / "a").write_text("second")
    upstream.commit(folder, "--all")
    if by == "http":
        upstream.git("update-server-info", at=folder)
        upstream.mirrors = {f"{UPSTREAM}tool": f"{web}tool/.git"}
    printed = upstream.take(GitSource(f"{UPSTREAM}tool", commit[:digits], "tree"))
    assert sorted(path.name for path in upstream.fetched("tree").iterdir()) == ["a", "b"]
    assert (upstream.fetched("tree") / "a").read_text() == "first"
    assert (commit in printed) == (digits < 40), "all digits are printed, so that they can be kept"


def test_a_short_commit_that_two_have_is_refused_with_both(upstream: Upstream) -> None:
    many = upstream.served / "many"
    upstream.git("init", "--quiet", "--bare", str(many))
    lines = "commit refs/heads/main\ncommitter x <x> {} +0000\ndata 0\n"
    text = "".join(lines.format(1735689600 + number) for number in range(900))
    upstream.git("fast-import", "--quiet", at=many, stdin=text)
    commits = upstream.git("rev-list", "main", at=many).split()
    start, times = Counter(commit[:4] for commit in commits).most_common(1)[0]
    assert times > 1
    printed = upstream.fail(GitSource(f"{UPSTREAM}many", start, "tree"))
    assert f"the commit {start} of 'tree' is ambiguous" in printed
    assert all(commit in printed for commit in commits if commit.startswith(start))


@pytest.mark.parametrize("commit", ["0123456", "0123456789" * 4, "HEAD^{tree}"])
def test_a_commit_that_is_not_there_is_reported(upstream: Upstream, commit: str) -> None:
    folder = upstream.repository("tool", a="x")
    if commit.startswith("HEAD"):
        commit = upstream.git("rev-parse", commit, at=folder)
    printed = upstream.fail(GitSource(f"{UPSTREAM}tool", commit, "tree"))
    assert f"has no commit {commit}" in printed
    assert f"where: {UPSTREAM}tool" in printed


def test_a_repository_that_is_not_there_is_reported_by_its_own_name(upstream: Upstream) -> None:
    printed = upstream.fail(GitSource(f"{UPSTREAM}nothing", "0123456", "tree"))
    assert "cannot fetch the repository of 'tree'" in printed
    assert f"where: {UPSTREAM}nothing, from a mirror" in printed
    assert "--mirror FROM=TO" in printed
    assert str(upstream.served) not in printed


def add_submodule(upstream: Upstream, folder: Path, inner: Path, place: str, url: str) -> None:
    upstream.git("submodule", "add", "--quiet", str(inner), place, at=folder)
    upstream.git("config", "--file=.gitmodules", f"submodule.{place}.url", url, at=folder)
    upstream.commit(folder, "--all")


def with_submodules(upstream: Upstream) -> Path:
    """Make a repository with one submodule by a whole URL, which itself has one by a relative."""
    deep, inner = upstream.repository("deep", c="deep"), upstream.repository("inner", b="inner")
    add_submodule(upstream, inner, deep, "deep", "../deep")
    outer = upstream.repository("outer", a="outer")
    add_submodule(upstream, outer, inner, "lib/inner", f"{UPSTREAM}inner")
    upstream.later(inner)
    return outer


@pytest.mark.parametrize("submodules", [(), ("lib/inner",)], ids=["none", "one of two"])
def test_only_named_submodules_are_fetched(upstream: Upstream, submodules: tuple[str, ...]) -> None:
    outer, other = with_submodules(upstream), upstream.repository("other", d="other")
    add_submodule(upstream, outer, other, "lib/other", f"{UPSTREAM}other")
    upstream.take(GitSource(f"{UPSTREAM}outer", upstream.head(outer), "tree", submodules))
    files = {path.name for path in upstream.fetched("tree").rglob("*") if path.is_file()}
    assert files == {"a", ".gitmodules"} | ({"b", "c"} if submodules else set())


def test_a_submodule_that_has_no_mirror_stops_the_step(upstream: Upstream) -> None:
    outer = with_submodules(upstream)
    upstream.mirrors = {f"{UPSTREAM}outer": f"file://{outer}"}
    upstream.environment["https_proxy"] = "http://127.0.0.1:9"
    commit = upstream.head(outer)
    source = GitSource(f"{UPSTREAM}outer", commit, "tree", ("lib/inner",))
    assert "cannot fetch a submodule of 'tree'" in upstream.fail(source)


def test_neither_the_user_s_git_nor_the_environment_decides_its_origin(upstream: Upstream) -> None:
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
    upstream.take(GitSource(f"{UPSTREAM}right", upstream.head(right), "tree"))
    assert (upstream.fetched("tree") / "a").read_text() == "right"
    assert (upstream.home / ".gitconfig").read_text() == wrong


def test_without_a_mirror_nothing_but_https_is_spoken(upstream: Upstream) -> None:
    folder = upstream.repository("tool", a="x")
    upstream.mirrors = {}
    url = f"FILE://{upstream.served}/x.tar.gz"
    printed = upstream.fail(GitSource(f"file://{folder}", upstream.head(folder), "tree"))
    assert "transport 'file' not allowed" in printed
    printed = upstream.fail(UrlSource(url, "x", upstream.file(b"x")))
    assert "protocol" in printed.lower()


@pytest.mark.parametrize("by", ["file", "http"])
def test_a_file_arrives_when_its_hash_is_right(upstream: Upstream, web: str, by: str) -> None:
    digest = upstream.file(b"\0content\n")
    upstream.mirrors = {UPSTREAM: web} if by == "http" else upstream.mirrors
    assert upstream.take(UrlSource(f"{UPSTREAM}x.tar.gz", "here.tgz", digest)) == ""
    assert upstream.fetched("here.tgz").read_bytes() == b"\0content\n"


def test_a_file_with_another_hash_is_not_used(upstream: Upstream) -> None:
    digest = upstream.file(b"changed")
    printed = upstream.fail(UrlSource(f"{UPSTREAM}x.tar.gz", "x.tgz", "0" * 64))
    assert f"expected {'0' * 64}, got {digest}" in printed


def test_a_file_that_is_not_pinned_is_reported_with_its_hash(upstream: Upstream) -> None:
    digest = upstream.file(b"any")
    printed = upstream.take(UrlSource(f"{UPSTREAM}x.tar.gz", "x.tgz"))
    assert f"not pinned; its sha256 is {digest}" in printed
    assert upstream.fetched("x.tgz").read_bytes() == b"any"


@pytest.mark.parametrize("by", ["file", "http"])
def test_a_missing_file_is_reported_by_its_own_name(upstream: Upstream, web: str, by: str) -> None:
    upstream.mirrors = {UPSTREAM: web} if by == "http" else upstream.mirrors
    printed = upstream.fail(UrlSource(f"{UPSTREAM}gone.tgz", "x.tgz", "0" * 64))
    assert "cannot download 'x.tgz'" in printed
    assert f"where: {UPSTREAM}gone.tgz, from a mirror" in printed
    assert ("404" in printed) == (by == "http")


def test_of_two_mirrors_the_longer_prefix_counts(upstream: Upstream) -> None:
    (upstream.served / "special").mkdir()
    digest = upstream.file(b"right", "special/x.tgz")
    folder = upstream.repository("special/tool", a="right")
    upstream.mirrors = {
        f"{UPSTREAM}group/": f"file://{upstream.served}/special/",
        UPSTREAM: "file:///nowhere/",
        f"{UPSTREAM}gro": "file:///nowhere/else/",
    }
    upstream.take(
        UrlSource(f"{UPSTREAM}group/x.tgz", "x.tgz", digest),
        GitSource(f"{UPSTREAM}group/tool", upstream.head(folder), "tree"),
    )
    assert upstream.fetched("x.tgz").read_bytes() == b"right"
    assert (upstream.fetched("tree") / "a").read_text() == "right"


@pytest.mark.parametrize("name", ["it's", "$(touch${IFS}pwned)", "a;b&c", "`id`", "-rf", "*"])
def test_characters_of_the_shell_are_only_characters(upstream: Upstream, name: str) -> None:
    folder = upstream.repository(name, a="x")
    digest = upstream.file(b"x", f"{name}.tgz")
    upstream.mirrors = {f"{UPSTREAM}{name}": f"file://{folder}"}
    upstream.mirrors[f"{UPSTREAM}files/"] = f"file://{upstream.served}/"
    upstream.take(
        GitSource(f"{UPSTREAM}{name}", upstream.head(folder), "tree"),
        UrlSource(f"{UPSTREAM}files/{name}.tgz", f"x {name}", digest),
    )
    assert upstream.fetched(f"x {name}").read_bytes() == b"x"
    assert not list(upstream.home.glob("pwned"))


@pytest.mark.parametrize(
    ("source", "tool"),
    [(GitSource("https://x", "0" * 40, "a"), "git"), (UrlSource("https://x", "a"), "curl")],
)
def test_the_image_must_have_what_fetches(upstream: Upstream, source: Source, tool: str) -> None:
    for name in ("bash", "mktemp", "rm", "tail"):
        (upstream.home / name).symlink_to(shutil.which(name) or "")
    upstream.environment["PATH"] = str(upstream.home)
    printed = upstream.fail(source)
    assert f"the image has no {tool}, which fetches 'a'" in printed
    assert f"add {tool} and ca-certificates to packages.apt" in printed


def test_everything_has_the_time_of_the_image_and_nothing_else_is_left(upstream: Upstream) -> None:
    folder = upstream.repository("tool", a="x", b="y")
    upstream.environment["SOURCE_DATE_EPOCH"] = "1735689600"
    upstream.take(GitSource(f"{UPSTREAM}tool", upstream.head(folder), "tree"))
    tree = upstream.fetched("tree")
    assert {path.stat().st_mtime for path in (tree, *tree.iterdir())} == {1735689600.0}
    assert list(upstream.home.iterdir()) == []


def test_a_full_disk_is_reported_as_what_it_is(upstream: Upstream) -> None:
    digest = upstream.file(bytes(4 << 20))
    small = 'mount -t tmpfs -o size=1m small "$TMPDIR" && exec "$@"'
    enter = ["unshare", "--map-root-user", "--mount", "sh", "-c", small, "sh"]
    printed = upstream.fail(UrlSource(f"{UPSTREAM}x.tar.gz", "x.tar.gz", digest), enter)
    assert "No space left on device" in printed


@pytest.mark.parametrize(
    "mirror",
    ["http://mirror.invalid/", "http://127.0.0.1@mirror.invalid/", "http://127.0.0.10.invalid/"],
)
def test_what_nothing_pins_is_not_taken_by_plain_http(upstream: Upstream, mirror: str) -> None:
    upstream.mirrors = {UPSTREAM: mirror}
    for source in (UrlSource(f"{UPSTREAM}x", "x"), GitSource(f"{UPSTREAM}x", "0123456", "x")):
        printed = upstream.fail(source)
        assert "error: 'x' was not fetched: nothing pins it" in printed
        assert "add its sha256 (a commit of 40 digits), or use a mirror with https" in printed
    with pytest.raises(DownloadError, match="cannot download a source without a hash"):
        require_guarded(f"{UPSTREAM}x", upstream.mirrors)


def test_what_a_hash_pins_may_come_by_plain_http(upstream: Upstream, web: str) -> None:
    """The server is the proxy here, and takes the whole address for a path."""
    (upstream.served / "http:/mirror.invalid").mkdir(parents=True)
    digest = upstream.file(b"pinned", "http:/mirror.invalid/x")
    upstream.mirrors = {UPSTREAM: "http://mirror.invalid/"}
    upstream.environment["http_proxy"] = web
    upstream.take(UrlSource(f"{UPSTREAM}x", "x", digest))
    assert upstream.fetched("x").read_bytes() == b"pinned"
