"""A recipe of four small layers on an image file, and builds of it to disturb."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lumicontainer.cache.integrity import prove
from lumicontainer.cache.store import Cache

from ...conftest import CHECK
from ..conftest import check_output, digest, events, write_files
from ..processes import PATIENCE, until

LAYERS = ("one", "two", "three", "four")
STEPS = (*LAYERS, "lumicontainer")
KILLS = int(os.environ.get("LUMICONTAINER_TEST_KILLS", "2"))
"""More of them prove more, where there is time."""
_SCRIPT = """\
set -euo pipefail
echo "making $name"
sleep 0.3
mkdir -p "/opt/$name"
printf '%s' "$value" >"/opt/$name/value"
python3 -c 'import random, sys
sys.stdout.buffer.write(random.Random(sys.argv[1]).randbytes(int(sys.argv[2]) << 10))' \\
    "$name" "$size" >"/opt/$name/data"
"""


def write_chain(folder: Path, image: Path) -> Path:
    """Write the recipe ``chain``, and ``other``, which stands on the same image and has no more."""
    files = {
        "chain.yaml": f"summary: four layers\nbase: tiny\nlayers: [{', '.join(LAYERS)}]\n",
        "other.yaml": "summary: another image\nbase: tiny\nlayers: []\n",
        "layers/tiny/layer.yaml": (
            "summary: Debian with Python\n"
            f"bootstrap: {{cpu: {{agent: localimage, file: {image}, sha256: {digest(image)}}}}}\n"
            'provides: {python: "3.11"}\n'
        ),
    }
    for name in LAYERS:
        files[f"layers/{name}/layer.yaml"] = (
            f"summary: a file\nenvironment: {{name: {name}}}\nparameters:\n"
            "  value: {type: string, default: a}\n"
            "  size: {type: integer, default: 100, summary: KiB}\n"
        )
        files[f"layers/{name}/install.sh"] = _SCRIPT
        files[f"layers/{name}/checks/value.sh"] = f"{CHECK}test -s /opt/{name}/value\n"
    return write_files(folder, files)


@dataclass
class Build:
    """A running build, and what it printed."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self, patience: float = 300) -> int:
        return self.process.wait(patience)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    @property
    def printed(self) -> str:
        return self.log.with_name(f"stdout-{self.log.name}").read_text()

    @property
    def stderr(self) -> str:
        return self.log.read_text()

    def events(self, kind: str) -> list[dict[str, str]]:
        """Return the events of a kind that were printed whole."""
        return events(self.stderr.rpartition("\n")[0], kind)

    def steps(self, kind: str) -> list[str]:
        """Return the steps, without packing and checks, that an event of a kind names."""
        return [each["step"] for each in self.events(kind) if each["step"] in ("base", *STEPS)]

    def made(self) -> list[str]:
        """Return the layers whose script ran."""
        lines = [each["text"].split() for each in self.events("line")]
        return [words[1] for words in lines if words[:1] == ["making"]]


@dataclass
class Place:
    """The folders of a test, in which builds of ``chain`` run."""

    root: Path
    recipes: Path
    enter: tuple[object, ...] = ()
    """The start of a command that runs the build where its folders are mounted."""
    seen: Path = Path("/")
    """Where the root folder of those builds is seen from here."""
    options: tuple[str, ...] = ()
    """Options of each build."""

    def visible(self, path: Path) -> Path:
        """Return where a path of the builds is seen from here."""
        return self.seen / path.relative_to("/")

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    @property
    def image(self) -> Path:
        return self.root / "images/chain.sif"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LUMICONTAINER_CACHE": str(self.cache),
            "LUMICONTAINER_TMPDIR": str(self.temporary),
            "PATH": f"{self.root}/bin:{os.environ['PATH']}",
        }

    def start(self, *words: object, output: Path | None = None, recipe: str = "chain") -> Build:
        """Start a build that prints events as JSON."""
        log = self.root / f"log-{len(list(self.root.glob('log-*')))}"
        command = [*self.enter, sys.executable, "-m", "lumicontainer", "build", recipe, *words]
        command += [*self.options, "--recipes", self.recipes, "--output", output or self.image]
        words = [str(word) for word in (*command, "--progress", "json")]
        with log.open("wb") as stderr, log.with_name(f"stdout-{log.name}").open("wb") as stdout:
            streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
            return Build(subprocess.Popen(words, env=self.environment, **streams), log)

    def build(self, *words: object, code: int = 0) -> Build:
        """Build to the end."""
        build = self.start(*words)
        assert build.wait() == code, build.stderr[-3000:]
        return build

    def living(self) -> list[str]:
        """Return the processes that have to do with these folders, by what they say and mount."""
        mark = os.fsencode(self.root)
        processes = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (process / "cmdline").read_bytes()
                if mark in command or mark in (process / "mountinfo").read_bytes():
                    words = command.decode(errors="replace").replace("\0", " ")
                    processes.append(f"{process.name} {words}")
        return processes

    def ends(self) -> bool:
        """Return whether all processes of builds end by themselves."""
        return until(lambda: not self.living(), PATIENCE)

    def left(self) -> list[str]:
        """Return drafts, partial images, and files of builds other than the tree for the next."""
        drafts = self.visible(self.cache / "objects").glob(".*")
        partial = self.visible(self.image.parent).glob(".*")
        files = (each for build in self.trees() for each in build.iterdir())
        own = (each for each in files if each.name not in {"sandbox", "lock", "idle"})
        return [str(path) for path in (*drafts, *partial, *own)]

    def trees(self) -> list[Path]:
        """Return the trees that builds left."""
        return [*self.visible(self.temporary).glob("*/*-*")]

    def objects(self) -> list[str]:
        return Cache(self.cache).names()


def copy(cache: Path, folder: Path) -> Path:
    """Copy a cache; damage of the copy leaves the other whole."""
    check_output("cp", "-a", "--reflink=auto", cache, folder)
    return folder


def prove_all(cache: Path) -> Iterator[str]:
    """Yield the names of all objects, each proven; raise where one is damaged."""
    for name in Cache(cache).names():
        prove(cache / "objects" / name)
        yield name
