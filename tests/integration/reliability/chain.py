"""A recipe of four small layers on an image file, and builds of it to disturb."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lumicontainer.build.cache.store import Cache, prove

from ...conftest import CHECK
from ..conftest import run

LAYERS = ("one", "two", "three", "four")
STEPS = (*LAYERS, "lumicontainer")
PATIENCE = 2.0
"""Seconds after which nothing of a killed build may run."""
_STAY = {"sandbox", "lock", "idle"}
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
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@dataclass
class Build:
    """A running build, and what it printed."""

    process: subprocess.Popen[bytes]
    log: Path
    begun: float = field(default_factory=time.monotonic)

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
        lines = [line for line in self.stderr.split("\n")[:-1] if line.startswith("{")]
        return [each for line in lines if (each := json.loads(line))["event"] == kind]

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

    def there(self, path: Path) -> Path:
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
        names: dict[str, object] = {
            "LUMICONTAINER_CACHE": self.cache,
            "LUMICONTAINER_TMPDIR": self.temporary,
        }
        names["PATH"] = f"{self.root}/bin:{os.environ['PATH']}"
        return {**os.environ, **{name: str(path) for name, path in names.items()}}

    def start(self, *words: object, output: Path | None = None, recipe: str = "chain") -> Build:
        """Start a build that prints events as JSON."""
        log = self.root / f"log-{len(list(self.root.glob('log-*')))}"
        command = [*self.enter, sys.executable, "-m", "lumicontainer", "build", recipe, *words]
        command += [*self.options, "--recipes", self.recipes, "--output", output or self.image]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(word) for word in (*command, "--progress", "json")],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log.with_name(f"stdout-{log.name}").open("wb"),
                stderr=file,
            )
        return Build(process, log)

    def build(self, *words: object, code: int = 0) -> Build:
        """Build to the end."""
        build = self.start(*words)
        assert build.wait() == code, build.stderr[-3000:]
        return build

    def living(self) -> list[str]:
        """Return the processes that have to do with these folders, by what they say and mount."""
        mark = os.fsencode(self.root)
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
                if mark in command or mark in (process / "mountinfo").read_bytes():
                    words = command.decode(errors="replace").replace("\0", " ")
                    found.append(f"{process.name} {words}")
            except OSError:
                continue
        return found

    def left(self) -> list[str]:
        """Return what builds left that they should not: drafts, partial images, their own files.

        A build leaves its tree for the next.
        """
        drafts = self.there(self.cache / "objects").glob(".*")
        partial = self.there(self.image.parent).glob(".*")
        files = [
            each for build in self.trees() for each in build.iterdir() if each.name not in _STAY
        ]
        return [str(path) for each in (drafts, partial, files) for path in each]

    def trees(self) -> list[Path]:
        """Return the trees that builds left."""
        return [*self.there(self.temporary).glob("*/*-*")]

    def objects(self) -> list[str]:
        return Cache(self.cache).names()


def until(holds: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Wait until something holds; return whether it did in time."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy(cache: Path, folder: Path) -> Path:
    """Copy a cache; damage of the copy leaves the other whole."""
    done = run(["cp", "-a", "--reflink=auto", cache, folder])
    assert done.returncode == 0, done.stderr
    return folder


def prove_all(cache: Path) -> Iterator[str]:
    """Yield the names of all objects, each proven; raise where one is damaged."""
    for name in Cache(cache).names():
        prove(cache / "objects" / name)
        yield name
