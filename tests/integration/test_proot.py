"""What render prints for LUMI is built where nobody has user namespaces: under PRoot.

The base is a tree that belongs to an ordinary user, as the engine unpacks one; root then lays over
it what SingularityCE 4 does while %post runs (internal/pkg/build/stage.go, and addIdentityMount of
its runtime), and the sections run in it as that user, in no user namespace, with LUMI's umask.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.build.cache.store import LAYER, object_name
from lumicontainer.host.site import read_site, stage_site
from lumicontainer.system.files.user_cache import cache_root

from ..namespaces import prepared
from .conftest import ENGINE, lumicontainer, run

RECIPE = {
    "users.yaml": "summary: packages that add users\nbase: tiny\nlayers: [users]\n",
    "layers/tiny/layer.yaml": (
        "summary: Debian with Python\nbootstrap:\n  rocm: {agent: debootstrap, release: bookworm,"
        " docker_image: 'debian:bookworm', include: [python3]}\n"
    ),
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
        binds = [f"mount --rbind /{name} {self.root}/{name}" for name in ("proc", "dev")]
        binds += [f"mount -t tmpfs -o mode=1777 tmpfs {self.root}/tmp"]
        binds += [f"mount --bind {self.session / n} {self.root}/etc/{n}" for n in MOUNTS]
        binds += [f"mount --bind {self.session}/libs {self.root}{LIBS}"]
        enter = " && ".join([*binds, f'set -- chroot {self.root} "$@"'])
        user = ["setpriv", f"--reuid={ID}", f"--regid={ID}", "--clear-groups"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/builder"]
        post = ["bash", "-c", f"umask 0007; . {SITE}/site.sh; exec bash /.post.script"]
        (self.root / ".post.script").write_text(script)
        command = prepared("mount", enter)
        return run([*command, *(() if os.getuid() else user), *clean, *self.proot, *post])


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


@pytest.fixture(scope="module")
def definition(recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("own")
    for name, text in RECIPE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = lumicontainer("render", "users", "--platform", "lumi-g", "--recipes", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def tree(small: Path, recipes: Path, tmp_path: Path) -> Iterator[Tree]:
    """Unpack the base of the image ``small``, which is Debian with Python, as the builder's own."""
    words = ("build", "small", "--recipes", recipes, "--dry-run", "--json")
    key = json.loads(lumicontainer(*words, cwd=small.parent).stdout)["base_key"]
    layer = cache_root() / "objects" / object_name(key, "") / LAYER
    root = tmp_path / "tree"
    # Nobody but root makes devices, and none is wanted: /dev is the host's.
    unpacked = run(["unsquashfs", "-quiet", "-no-progress", "-no-xattrs", "-dest", root, layer])
    assert (root / "etc/passwd").exists(), unpacked.stderr
    session = put_session(tmp_path / "session", root)
    proot = put_proot(session / "libs")
    site = root / SITE.strip("/")
    site.mkdir()
    stage_site(read_site("bookworm"), site, SITE)
    if os.getuid() == 0:
        run(["chown", "--recursive", "--no-dereference", f"{ID}:{ID}", root, session])
    yield Tree(root, session, proot)
    shutil.rmtree(root, ignore_errors=True)


def posts(definition: str) -> str:
    """Return what the engine makes of the sections %post: one script."""
    return "".join(re.findall(r"(?ms)^%post -c /bin/bash\n(.*?)(?=^%)", definition))


def test_the_files_over_etc_are_in_the_way_of_users_as_they_are_on_lumi(tree: Tree) -> None:
    done = tree.run("groupadd newcomers\n")
    assert done.returncode != 0
    assert "failure while writing changes to /etc/group" in done.stderr


def test_an_ordinary_user_builds_it_under_proot(tree: Tree, definition: str) -> None:
    before = set(closed_files(tree.root))
    done = tree.run(posts(definition))
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]

    users = (tree.root / "etc/passwd").read_text()
    groups = (tree.root / "etc/group").read_text()
    assert "\nowner:x:" in users
    assert "\nuuidd:x:" in users
    assert "\n_ssh:x:" in groups
    # Who built it, and where, is not in the image.
    assert BUILDER not in users + groups
    assert (tree.root / "etc/hosts").read_text() == ""
    assert (tree.root / "etc/resolv.conf").read_text() == ""
    left = tree.root / "opt/lumicontainer/.etc"
    assert {path.name for path in left.iterdir()} <= set(MOUNTS)

    assert (tree.root / "opt/umask").read_text() == "0022\n"
    closed = {str(path.relative_to(tree.root)) for path in closed_files(tree.root) - before}
    assert closed <= {"etc/.pwd.lock", *(f"etc/{name}-" for name in ("shadow", "gshadow"))}

    command = [ENGINE, "--silent", "exec", "--userns", tree.root, "lumi-entry", "--version"]
    started = run(command)
    assert re.fullmatch(r"lumi-entry \d\S*\n", started.stdout), started.stderr


def closed_files(root: Path) -> set[Path]:
    """Return the files and folders that others than their owner cannot read."""
    found = set()
    for folder in ("etc", "opt", "usr"):
        for path in (root / folder).rglob("*"):
            wanted = 0o5 if path.is_dir() else 0o4
            if not path.is_symlink() and path.stat().st_mode & wanted != wanted:
                found.add(path)
    return found
