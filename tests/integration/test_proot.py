"""A rendered definition is built under PRoot where nobody has user namespaces, as on LUMI.

The base is a tree that belongs to an ordinary user, as the engine unpacks one; root then lays over
it what SingularityCE 4 does while %post runs (internal/pkg/build/stage.go, and addIdentityMount of
its runtime), and the sections run in it as that user, in no user namespace, with LUMI's umask.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.cache.objects import LAYER
from lumicontainer.constants import HOME, PROGRAMS
from lumicontainer.host.site import read_site, stage_site

from ..namespaces import prepared
from .conftest import SMALL, check_output, inside, lumicontainer, run, write_files

RECIPE = {
    "users.yaml": "summary: packages that add users\nbase: tiny\nlayers: [users]\n",
    "layers/tiny/layer.yaml": SMALL["layers/tiny/layer.yaml"].replace("  cpu:", "  rocm:"),
    "layers/users/layer.yaml": (
        "summary: a user, a group, and files of theirs\n"
        "packages: {apt: [adduser, openssh-client, uuid-runtime]}\n"
    ),
    "layers/users/install.sh": (
        "#!/usr/bin/env bash\nset -euo pipefail\n"
        "useradd --system --create-home --home-dir /opt/owner owner\n"
        "touch /opt/owned && chown owner:_ssh /opt/owned\n"
        "mkdir /opt/shared && chmod 2755 /opt/shared\n"
        "umask >/opt/umask\n"
    ),
}
BUILDER, ID = "builder", os.getuid() or 12345
LIBS = "/.singularity.d/libs"
"""Where the engine shows PRoot during %post; libraries that an image keeps there, it loads."""
SITE = "/.site"
MOUNTS = ("passwd", "group", "hosts", "resolv.conf")


@dataclass(frozen=True)
class Tree:
    """Hold an unpacked base, and what the engine lays over its /etc and its ``LIBS``."""

    root: Path
    session: Path
    proot: Sequence[str]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script as %post: as the ordinary user who is root to PRoot alone."""
        mounts = [f"mount --rbind /{name} {self.root}/{name}" for name in ("proc", "dev")]
        mounts += [f"mount -t tmpfs -o mode=1777 tmpfs {self.root}/tmp"]
        mounts += [f"mount --bind {self.session / n} {self.root}/etc/{n}" for n in MOUNTS]
        mounts += [f"mount --bind {self.session}/libs {self.root}{LIBS}"]
        enter = " && ".join([*mounts, f'set -- chroot {self.root} "$@"'])
        user = ["setpriv", f"--reuid={ID}", f"--regid={ID}", "--clear-groups"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/builder"]
        post = ["bash", "-c", f"umask 0007; . {SITE}/site.sh; exec bash /.post.script"]
        (self.root / ".post.script").write_text(script)
        as_user = () if os.getuid() else user
        return run([*prepared("mount", enter), *as_user, *clean, *self.proot, *post])


def put_proot(folder: Path) -> list[str]:
    """Put PRoot into a folder with what it is linked with; LUMI's is one static program."""
    program = shutil.which("proot")
    assert program, "proot is missing; tests/tools.sh installs it"
    folder.mkdir()
    needed = re.findall(r"(/\S+) \(0x", run(["ldd", program]).stdout)
    for path in (program, *needed):
        shutil.copy(path, folder)
    loader = next(Path(path).name for path in needed if "/ld-linux" in path)
    return [f"{LIBS}/{loader}", "--library-path", LIBS, f"{LIBS}/proot", "-0"]


def put_session(folder: Path, tree: Path) -> Path:
    """Write what the engine lays over /etc: the base's users and the builder, the host's names."""
    folder.mkdir()
    entries = {"passwd": f"{BUILDER}:x:{ID}:{ID}::/home/{BUILDER}:/bin/bash\n"}
    entries["group"] = f"{BUILDER}s:x:{ID}:{BUILDER}\n"
    for name in MOUNTS:
        source = tree if name in entries else Path("/")
        text = (source / "etc" / name).read_text() + entries.get(name, "")
        (folder / name).write_text(text)
        (tree / "etc" / name).touch()
    return folder


@pytest.fixture
def posts(tmp_path: Path) -> str:
    """Return what the engine makes of the sections %post: one script."""
    words = ("--platform", "lumi-g", "--recipes", write_files(tmp_path / "own", RECIPE))
    definition = lumicontainer("render", "users", *words, code=0).stdout
    return "".join(re.findall(r"(?ms)^%post -c /bin/bash\n(.*?)(?=^%)", definition))


@pytest.fixture
def tree(base_object: Path, tmp_path: Path) -> Iterator[Tree]:
    """Unpack the base of the image ``small``, which is Debian with Python, as the builder's own."""
    layer, root = base_object / LAYER, tmp_path / "tree"
    # Nobody but root makes devices, and none is wanted: /dev is the host's.
    unpacked = run(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-dest", root, layer])
    assert (root / "etc/passwd").exists(), unpacked.stderr
    session = put_session(tmp_path / "session", root)
    proot = put_proot(session / "libs")
    site = root / SITE.strip("/")
    site.mkdir()
    stage_site(read_site("bookworm"), site, SITE)
    if os.getuid() == 0:
        check_output("chown", "--recursive", "--no-dereference", f"{ID}:{ID}", root, session)
    yield Tree(root, session, proot)
    shutil.rmtree(root, ignore_errors=True)


def test_the_files_over_etc_are_in_the_way_of_users_as_they_are_on_lumi(tree: Tree) -> None:
    done = tree.run("groupadd newcomers\n")
    assert done.returncode != 0
    assert "failure while writing changes to /etc/group" in done.stderr


def test_an_ordinary_user_builds_it_under_proot(tree: Tree, posts: str) -> None:
    before = set(closed_files(tree.root))
    done = tree.run(posts)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]

    etc, left = tree.root / "etc", tree.root / "opt/lumicontainer/.etc"
    users, groups = (etc / "passwd").read_text(), (etc / "group").read_text()
    for name, text in {"owner": users, "uuidd": users, "_ssh": groups}.items():
        assert f"\n{name}:x:" in text
    # Who built it, and where, is not in the image.
    assert BUILDER not in users + groups
    assert (etc / "hosts").read_text() == (etc / "resolv.conf").read_text() == ""
    assert {path.name for path in left.iterdir()} <= set(MOUNTS)

    assert (tree.root / "opt/umask").read_text() == "0022\n"
    closed = {str(path.relative_to(tree.root)) for path in closed_files(tree.root) - before}
    assert closed <= {"etc/.pwd.lock", "etc/shadow-", "etc/gshadow-"}

    programs = [tree.root / HOME.strip("/") / "bin" / name for name in PROGRAMS]
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in programs} == dict.fromkeys(
        PROGRAMS, "0o755"
    )
    links = {name: str((tree.root / "usr/local/bin" / name).readlink()) for name in PROGRAMS}
    assert links == {name: f"{HOME}/bin/{name}" for name in PROGRAMS}
    # If the engine does not find it, the message shows the PATH and the file.
    show = 'echo "$PATH" >&2 && ls -lL /usr/local/bin/lumi-entry >&2 && exec lumi-entry --version'
    assert re.fullmatch(r"lumi-entry \d\S*\n", inside(tree.root, "sh", "-c", show))


def closed_files(root: Path) -> set[Path]:
    """Return the files and folders that others than their owner cannot read."""
    paths = (path for folder in ("etc", "opt", "usr") for path in (root / folder).rglob("*"))
    return {
        path
        for path in paths
        if not path.is_symlink() and ~path.stat().st_mode & (0o5 if path.is_dir() else 0o4)
    }
