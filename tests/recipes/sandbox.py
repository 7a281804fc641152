"""Run a layer's script for real, on a copy of this machine's files that is thrown away.

The root is made of overlays over this machine's folders, in namespaces of a user and of mounts:
what a script writes reaches nothing else, and is kept for the test to look at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..conftest import ROOT
from ..namespaces import as_root

LAYERS = ROOT / "recipes/layers"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What others have mounted below these folders would be locked in a namespace of a user, and the
# kernel refuses an overlay over it. The folder goes back to the user whose sudo began this.
_ALONE = r"""
work=$1 && shift
cut --delimiter=' ' --fields=2 /proc/self/mounts | grep -E '^/(etc|usr|var)/' | sort --reverse |
    while read -r mounted; do umount --lazy "$(printf %b "$mounted")"; done
status=0
"$@" || status=$?
[ -z "${SUDO_UID:-}" ] || chown -R --no-dereference "$SUDO_UID:$SUDO_GID" "$work"
exit "$status"
"""

# $1: the folder; the rest is the command. What was written lies in written/ afterwards. The kernel
# refuses an overlay over / itself, where others may have mounted something.
_ENTER = r"""
work=$1 && shift
mount -t tmpfs tmpfs "$work/mount"
cd "$work/mount"
mkdir upper work root
cp -a "$work/before/." root
for folder in etc usr var; do
    mkdir -p "root/$folder" "work/$folder"
    mv "root/$folder" upper
    mkdir "root/$folder"
    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=upper/$folder,workdir=work/$folder" \
        "root/$folder"
done
for link in bin lib lib64 sbin; do
    ln -sfn "usr/$link" "root/$link"
done
mkdir -p root/proc root/dev root/tmp root/opt "root$work"
mount --rbind /proc root/proc
mount --rbind /dev root/dev
mount --bind "$work" "root$work"
status=0
chroot root "$@" || status=$?
keep() {
    find "$1" -xdev \( -path root/tmp -o -path "root$work" \) -prune -o \
        \( -type f -o -type l -o -type d \) -printf '%P\0' |
        tar --create --directory "$1" --null --no-recursion --files-from - |
        tar --extract --directory "$work/written"
}
rm -rf "$work/written" && mkdir "$work/written"
keep root
keep upper
exit "$status"
"""


@dataclass
class Sandbox:
    """Hold what a script finds: sources, values, and files of the image below its layer."""

    work: Path
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("mount", "before", "written", "sources", "tools", "tmp", "home"):
            (self.work / name).mkdir()
        self.tool("record", _RECORD)

    @property
    def record(self) -> Path:
        return self.work / "record"

    @property
    def sources(self) -> Path:
        """Where the step lays a layer's sources."""
        return self.work / "sources"

    def before(self, path: str, text: str = "", mode: int = 0o644) -> None:
        """Put a file into the image before the script runs."""
        file = self.work / "before" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def tool(self, name: str, text: str = "#!/bin/sh\n") -> None:
        """Put a program before all others on PATH."""
        path = self.work / "tools" / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def written(self, path: str) -> Path:
        """Return where a file lies now that the script wrote to that path."""
        return self.work / "written" / path.lstrip("/")

    def run(self, layer: str, script: str, **values: str) -> subprocess.CompletedProcess[str]:
        """Run a script of a layer, as a step of a build runs it."""
        stage = self.work / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        shutil.copytree(LAYERS / layer, stage, ignore=shutil.ignore_patterns("layer.yaml"))
        return self.enter(["bash", f"./{script}"], cwd=stage, **values)

    def enter(
        self, command: Iterable[str], cwd: Path = Path("/"), **values: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the image; what it has written is there for the next one."""
        environment = {
            "PATH": f"{self.work}/tools/bin:{SYSTEM_PATH}",
            "HOME": str(self.work / "home"),
            "TMPDIR": str(self.work / "tmp"),
            "sources": str(self.sources),
            "jobs": "3",
            "STAND_IN_RECORD": str(self.record),
            **self.values,
            **values,
        }
        for folder in ("tmp", "home"):
            shutil.rmtree(self.work / folder)
            (self.work / folder).mkdir()
        work = str(self.work)
        namespaces = [*as_root(), "unshare", "--mount", "bash", "-euc", _ALONE, "-", work]
        # In a namespace of root's, an ordinary user's folders would be nobody's, and closed.
        own = [] if os.getuid() else ["--map-root-user"]
        enter = ["unshare", *own, "--mount", "bash", "-euc", _ENTER, "-", work]
        inside = ["bash", "-c", 'cd "$0" && exec "$@"', str(cwd), *command]
        done = subprocess.run(
            [*namespaces, *enter, *inside],
            env=environment,
            text=True,
            capture_output=True,
            check=False,
        )
        shutil.rmtree(self.work / "before")
        shutil.copytree(self.work / "written", self.work / "before", symlinks=True)
        return done

    def calls(self) -> list[tuple[str, str]]:
        """Return which program of which tree was called, in order."""
        return [(tree, program) for tree, program, *_ in self._recorded()]

    def arguments(self, tree: str, program: str) -> list[str]:
        """Return the arguments of the one call of a program of a tree."""
        (arguments,) = [words[2:] for words in self._recorded() if words[:2] == [tree, program]]
        return arguments

    def _recorded(self) -> list[list[str]]:
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [line.split("\t") for line in lines]


def passed(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return done


_RECORD = """\
#!/bin/sh
{ printf '%s' "$1"; shift; printf '\\t%s' "$@"; echo; } >>"$STAND_IN_RECORD"
"""
# Only a release that is packed for download has configure already.
_AUTOGEN = """\
#!/bin/sh
set -e
record TREE autogen
FIRST
mv configure.stand-in configure
"""
_CONFIGURE = """\
#!/bin/bash
set -e
record TREE configure "$@"
FIRST
printf '%s\\n' "$@" | sed -nE 's/^--(prefix|libdir)=/\\1 = /p' >config.mk
"""
_MAKEFILE = """\
-include config.mk
all:
\t@record TREE make $(MAKEFLAGS)
\t@for file in MADE; do mkdir -p "$$(dirname $$file)"; echo stand-in >$$file; done
install:
\t@record TREE install
\t@for file in INSTALLED; do mkdir -p "$$(dirname $$file)"; echo stand-in >$$file; done
"""


def stand_in(
    root: Path,
    *,
    packed: bool = False,
    made: str = "",
    installed: str = "",
    autogen: str = "",
    configure: str = "",
) -> None:
    """Write a tree in an upstream's place: it records how it is configured and made.

    ``made`` are files that ``make`` writes in it, ``installed`` those that ``make install`` does;
    ``autogen`` and ``configure`` are lines of shell that upstream's programs of these names begin
    with.
    """
    makefile = _MAKEFILE.replace("MADE", made).replace("INSTALLED", installed)
    files = {"Makefile": makefile}
    if packed:
        files["configure"] = _CONFIGURE.replace("FIRST", configure)
    else:
        files["configure.stand-in"] = _CONFIGURE.replace("FIRST", configure)
        files["autogen.sh"] = _AUTOGEN.replace("FIRST", autogen)
    root.mkdir(parents=True)
    for name, text in files.items():
        (root / name).write_text(text.replace("TREE", root.name))
        (root / name).chmod(0o755)
