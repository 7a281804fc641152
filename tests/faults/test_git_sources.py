"""A git repository decides about its own folder, and about nothing else of the step."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from lumicontainer.core.model import GitSource
from lumicontainer.host.git import whole_commit
from lumicontainer.system.process import ProgramError

from ..unit.host.test_fetch import UPSTREAM, Upstream, add_submodule, upstream
from ..unit.host.test_registry import Answer, answering

__all__ = ["upstream"]

TOOL = f"{UPSTREAM}tool"


@pytest.fixture
def canary(upstream: Upstream) -> Path:
    """Return a file that the code of the attacks would write."""
    return upstream.home / "canary"


@pytest.fixture
def secret(upstream: Upstream) -> Path:
    """Make a repository that no layer names, next to those that it may name."""
    private = upstream.home.parent / "private"
    upstream.git("init", "--quiet", "--initial-branch=main", str(private))
    (private / "key").write_text("secret")
    upstream.git("add", ".", at=private)
    upstream.commit(private)
    return private


def outside(upstream: Upstream) -> dict[str, bytes]:
    """Return all files that an attack could change: in the home folder, and upstream."""
    places = (upstream.home, upstream.served, upstream.home.parent / "private")
    files = (path for place in places for path in sorted(place.rglob("*")) if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def attack(upstream: Upstream, folder: Path, *submodules: str) -> str:
    """Fetch a repository; return what is printed. Nothing outside its own folder may change."""
    commit, before = upstream.head(folder), outside(upstream)
    done = upstream.fetch(GitSource(TOOL, commit, "tree", submodules))
    assert outside(upstream) == before
    return done.stdout + done.stderr


@pytest.mark.parametrize("depth", ["named", "nested"])
@pytest.mark.parametrize("form", ["file://{0}", "{0}", "file://localhost{0}", "FILE://{0}"])
def test_no_submodule_leads_to_a_repository_of_the_host(
    upstream: Upstream, secret: Path, form: str, depth: str
) -> None:
    url = form.format(secret)
    tool = upstream.repository("tool", a="x")
    if depth == "nested":
        inner = upstream.repository("inner", a="x")
        add_submodule(upstream, inner, secret, "lib", url)
        add_submodule(upstream, tool, inner, "lib", f"{UPSTREAM}inner")
    else:
        add_submodule(upstream, tool, secret, "lib", url)
    printed = attack(upstream, tool, "lib")
    assert f"its URL is '{url}'" in printed
    assert not upstream.fetched("tree").exists()


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% {canary}",
        "--upload-pack=touch {canary};",
        "-u./x",
        "ssh://-oProxyCommand=touch${{IFS}}{canary}/x",
        "git://127.0.0.1:9/x",
        "http://127.0.0.1:9/x",
        "https://127.0.0.1:9/x\n--upload-pack=x",
    ],
)
def test_no_url_of_a_submodule_is_a_command(upstream: Upstream, canary: Path, url: str) -> None:
    tool, inner = upstream.repository("tool", a="x"), upstream.repository("inner", a="x")
    add_submodule(upstream, tool, inner, "lib", url.format(canary=canary))
    attack(upstream, tool, "lib")
    assert not canary.exists()
    assert not upstream.fetched("tree").exists()


SETTINGS = {
    "update": "!touch {canary}",
    "ignore": "all",
    "fetchRecurseSubmodules": "true",
    "branch": "--upload-pack=touch {canary}",
}


@pytest.mark.parametrize(("key", "value"), SETTINGS.items())
def test_no_setting_of_a_submodule_is_a_command(
    upstream: Upstream, canary: Path, key: str, value: str
) -> None:
    tool, inner = upstream.repository("tool", a="x"), upstream.repository("inner", a="x")
    upstream.git("submodule", "add", "--quiet", str(inner), "lib", at=tool)
    settings = ("config", "--file=.gitmodules")
    upstream.git(*settings, "submodule.lib.url", f"{UPSTREAM}inner", at=tool)
    upstream.git(*settings, f"submodule.lib.{key}", value.format(canary=canary), at=tool)
    upstream.commit(tool, "--all")
    attack(upstream, tool, "lib")
    assert not canary.exists()


def test_a_hook_in_a_folder_that_a_submodule_reaches_does_not_run(
    upstream: Upstream, canary: Path
) -> None:
    """Git before 2.43.7 loses a carriage return at the end of a path (CVE-2025-48384)."""
    inner = upstream.repository("inner", a="x")
    (inner / "post-checkout").write_text(f"#!/bin/sh\ntouch {canary}\n")
    (inner / "post-checkout").chmod(0o755)
    upstream.git("add", ".", at=inner)
    upstream.commit(inner)
    middle = upstream.repository("middle", a="x")
    add_submodule(upstream, middle, inner, "sub", f"{UPSTREAM}inner")
    modules = (middle / ".gitmodules").read_text().replace("path = sub", 'path = "sub\r"')
    (middle / ".gitmodules").write_text(modules, newline="")
    upstream.git("update-index", "--force-remove", "sub", at=middle)
    shutil.rmtree(middle / "sub")
    (middle / "sub").symlink_to("../.git/modules/lib/modules/sub/hooks")
    upstream.git("add", ".gitmodules", "sub", at=middle)
    entry = f"160000,{upstream.head(inner)},sub\r"
    upstream.git("update-index", "--add", "--cacheinfo", entry, at=middle)
    upstream.commit(middle)
    tool = upstream.repository("tool", a="x")
    add_submodule(upstream, tool, middle, "lib", f"{UPSTREAM}middle")
    attack(upstream, tool, "lib")
    assert not canary.exists()


def test_no_filter_of_a_repository_is_a_command(upstream: Upstream, canary: Path) -> None:
    """Filters are settings of the user, who has git-lfs and more: none counts here."""
    command = f"touch {canary}"
    settings = "".join(
        f'[filter "{name}"]\n\tsmudge = {command}\n\tclean = {command}\n\trequired = true\n'
        for name in ("lfs", "x")
    )
    (upstream.home / ".gitconfig").write_text(
        f'{settings}[core]\n\tfsmonitor = "{command}; false"\n\thooksPath = {upstream.home}\n'
    )
    for hook in (upstream.home / "post-checkout", upstream.home / "hooks/post-checkout"):
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{command}\n")
        hook.chmod(0o755)
    attributes = "a filter=lfs\nb filter=x\nc working-tree-encoding=UTF-16LE\n"
    tool = upstream.repository("tool", a="x", b="y", **{".gitattributes": attributes})
    upstream.environment["GIT_TEMPLATE_DIR"] = str(upstream.home)
    attack(upstream, tool)
    assert not canary.exists()
    assert whole_commit(TOOL, upstream.head(tool)[:9], upstream.mirrors) == upstream.head(tool)
    assert not canary.exists()


SERVER = {
    "fsmonitor": "[core]\n\tfsmonitor = touch {canary}\n",
    "hook of packs": '[uploadpack]\n\tpackObjectsHook = "touch {canary}; exec"\n',
    "included": "[include]\n\tpath = evil\n",
    "lazy": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialclone = x\n"
    '[remote "x"]\n\turl = "ext::touch {canary}"\n\tpromisor = true\n',
}


@pytest.mark.parametrize("settings", SERVER.values(), ids=SERVER)
def test_settings_of_a_mirror_of_files_run_nothing(
    upstream: Upstream, canary: Path, settings: str
) -> None:
    tool = upstream.repository("tool", a="x")
    commit = upstream.head(tool)
    git = tool / ".git"
    (git / "evil").write_text(SERVER["hook of packs"].format(canary=canary))
    with (git / "config").open("a") as file:
        file.write(settings.format(canary=canary))
    for hook in ("post-checkout", "pre-upload", "post-update", "reference-transaction"):
        (git / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (git / "hooks" / hook).chmod(0o755)
    if "partialclone" in settings:
        blob = upstream.git("rev-parse", "HEAD:a", at=tool)
        (git / "objects" / blob[:2] / blob[2:]).unlink()
    upstream.fetch(GitSource(TOOL, commit, "tree"))
    assert not canary.exists()
    with suppress(ProgramError):
        whole_commit(TOOL, commit[:9], upstream.mirrors)
    assert not canary.exists()


@pytest.mark.parametrize("to", ["file://{private}/.git", "ftp://127.0.0.1:9/x"])
def test_no_server_redirects_to_a_repository_of_the_host(
    upstream: Upstream, secret: Path, to: str
) -> None:
    upstream.git("update-server-info", at=secret)
    away = Answer(302, headers={"Location": f"{to.format(private=secret)}/info/refs"})
    commit = upstream.head(secret)
    with answering((away,), []) as host:
        upstream.mirrors = {UPSTREAM: f"http://{host}/"}
        assert "not supported or disabled" in upstream.fail(GitSource(TOOL, commit, "tree"))
        with pytest.raises(ProgramError, match="not supported or disabled"):
            whole_commit(TOOL, commit[:9], upstream.mirrors)


def write_bomb(upstream: Upstream, name: str, *, files: bool = True) -> str:
    """Write a repository of ten folders, each with the one below ten times; return its commit."""
    bomb = upstream.served / name
    upstream.git("init", "--quiet", "--bare", str(bomb))
    mode, kind = ("100644", "blob") if files else ("040000", "tree")
    make = ("hash-object", "-w", "--stdin") if files else ("mktree",)
    below = upstream.git(*make, at=bomb, stdin="x" if files else "")
    for _ in range(10):
        rows = "".join(f"{mode} {kind} {below}\t{number}\n" for number in range(10))
        below = upstream.git("mktree", at=bomb, stdin=rows)
        mode, kind = "040000", "tree"
    commit = upstream.git("commit-tree", "-m", "x", below, at=bomb)
    upstream.git("update-ref", "refs/heads/main", commit, at=bomb)
    return commit


def name_submodule(upstream: Upstream, name: str, commit: str, **settings: str) -> Path:
    """Write a repository whose submodule is a commit of another one."""
    tool = upstream.repository("tool", a="x")
    fields = {"path": "lib", "url": f"{UPSTREAM}{name}", **settings}
    for key, value in fields.items():
        upstream.git("config", "--file=.gitmodules", f"submodule.lib.{key}", value, at=tool)
    upstream.git("add", ".gitmodules", at=tool)
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib", at=tool)
    upstream.commit(tool)
    return tool


@pytest.mark.parametrize("files", [True, False], ids=["files", "empty folders"])
def test_a_few_objects_do_not_become_endless_files(upstream: Upstream, files: bool) -> None:
    commit = write_bomb(upstream, "tool", files=files)
    printed = upstream.fail(GitSource(TOOL, commit, "tree"))
    assert "the repository of 'tree' is too large" in printed
    assert "has more than" in printed


@pytest.mark.parametrize("folder", ["plain", "d\xe9", 'a"b', "\u6f22" * 80])
def test_large_attributes_are_refused_in_a_folder_of_any_name(
    upstream: Upstream, folder: str
) -> None:
    tool = upstream.repository("tool", a="x")
    (tool / folder).mkdir()
    (tool / folder / ".gitattributes").write_text("a text\n" * 60_000)
    upstream.git("add", ".", at=tool)
    upstream.commit(tool)
    printed = upstream.fail(GitSource(TOOL, upstream.head(tool), "tree"))
    assert "it has a .gitattributes of" in printed


def test_a_submodule_is_counted_before_its_files_are_written(upstream: Upstream) -> None:
    tool = name_submodule(upstream, "bomb", write_bomb(upstream, "bomb", files=False))
    printed = upstream.fail(GitSource(TOOL, upstream.head(tool), "tree", ("lib",)))
    assert "a submodule of 'tree' is too large" in printed


def test_submodules_in_submodules_are_counted_before_one_is_fetched(upstream: Upstream) -> None:
    many = upstream.repository("many", a="x")
    rows = "".join(f"160000 {'1' * 40} 0\t{number}\n" for number in range(1000))
    upstream.git("update-index", "--index-info", at=many, stdin=rows)
    tool = name_submodule(upstream, "many", upstream.commit(many))
    printed = upstream.fail(GitSource(TOOL, upstream.head(tool), "tree", (".",)))
    assert "it has more than 1000 submodules" in printed


def test_a_command_that_would_update_a_submodule_does_not_keep_it_away(
    upstream: Upstream, canary: Path
) -> None:
    inner = upstream.repository("inner", b="x")
    tool = name_submodule(upstream, "inner", upstream.head(inner), update=f"!touch {canary}")
    upstream.take(GitSource(TOOL, upstream.head(tool), "tree", ("lib",)))
    assert (upstream.fetched("tree") / "lib/b").is_file()
    assert not canary.exists()


def test_a_submodule_that_is_not_there_is_named(upstream: Upstream) -> None:
    tool = name_submodule(upstream, "inner", upstream.head(upstream.repository("inner", b="x")))
    printed = upstream.fail(GitSource(TOOL, upstream.head(tool), "tree", ("lob",)))
    assert "has no submodule 'lob'" in printed
    assert "it has these: lib" in printed
