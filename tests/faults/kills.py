"""Kill or interrupt commands at random instants, and see what they leave.

``python -m tests.faults.kills FOLDER COUNT [VERB]...`` is no test: pytest has the cases that are
worth their time. It prints one line for each verb. The verb ``docker`` needs DOCKER_HOST, the verbs
of jobs need SLURM_CONF.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lumicontainer.constants import HOME, PROGRAMS
from lumicontainer.host.docker.daemon import LABEL
from lumicontainer.image import sif
from lumicontainer.image.digests import WHOLE
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.image.integrity import check_image

from ..integration.conftest import ENGINE, check_output, digest, run, write_files, write_small
from ..integration.processes import left_in_engine

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ON_A_FILE = {
    "only.yaml": "summary: nothing more than another image\nbase: file\nlayers: []\n",
    "layers/file/layer.yaml": "summary: an image that was built elsewhere\nbootstrap: {{cpu: "
    '{{agent: localimage, file: {file}, sha256: {sha256}}}}}\nprovides: {{python: "3.11"}}\n',
}
PINNED = {
    "pinned.yaml": "summary: packages on such an image\nbase: file\nlayers: [words]\n",
    "layers/words/layer.yaml": (
        "summary: packages of Debian and of Python\n"
        "packages: {apt: [hello], python: [tabulate==0.9.0]}\n"
    ),
}
BARE = {"bare.yaml": "summary: a base alone\nbase: tiny\nlayers: []\n"}
OLD_LOCK = "# the old lock\n"
PATIENCE = 300
"""Seconds that what a killed command started has to end, on a busy host."""
INTERRUPTED = {0, 130, *(-number for number in SIGNALS)}
"""Exit codes after a signal; 0 if it came too late, and by the signal itself if too early."""


class Attack(NamedTuple):
    """Hold a command, how its effect is taken back, and where nothing partial may stay."""

    words: list[object]
    prepare: Callable[[], None] = lambda: None
    clean: tuple[Path, ...] = ()
    whole: Callable[[], object] = lambda: None
    """Raises if something that was whole before is whole no more."""
    list_left: Callable[[], list[str]] = list
    """Returns what was left elsewhere."""


class Place:
    """The folders of all attacks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.recipes = write_small(root / "recipes", BARE | PINNED)
        self.image = root / "small.sif"
        self.team = root / "team"
        self.team.mkdir(mode=0o700, exist_ok=True)
        for name in ("cache", "temporary"):
            (root / name).mkdir(mode=0o700, exist_ok=True)
        self.environment = {
            **os.environ,
            "LUMICONTAINER_CACHE": str(root / "cache"),
            "LUMICONTAINER_TMPDIR": str(root / "temporary"),
            "LUMICONTAINER_SHARED_CACHE": str(self.team),
            "KILLS": str(root),
        }

    def start(self, words: list[object]) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "lumicontainer", *map(str, words)]
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.root / "log").open("w"),
            text=True,
        )

    def run(self, words: list[object]) -> None:
        code = self.start(words).wait()
        if code:
            raise AssertionError(f"{words} ended with {code}:\n{self.log()}")

    def log(self) -> str:
        return (self.root / "log").read_text()

    def living(self) -> list[str]:
        """Return the programs that have our environment."""
        mark, commands = f"KILLS={self.root}\0".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes():
                    commands.append((entry / "cmdline").read_text().replace("\0", " "))
        return commands

    def keep(self, name: str) -> None:
        """Copy the cache, for ``refill``."""
        shutil.copytree(self.root / "cache", self.root / name, symlinks=True)

    def refill(self, name: str) -> None:
        _remove(self.root / "cache")
        subprocess.run(["cp", "-a", self.root / name, self.root / "cache"], check=True)

    def replace(self, image: Path) -> None:
        """Put another whole image in the place of one."""
        shutil.copyfile(self.root / "bare.sif", image)

    def left(self, folders: Iterable[Path]) -> list[str]:
        """Return partial files, working folders of extensions, and folders of jobs.

        Each recipe may keep one folder with its sandbox.
        """
        partial = (path for folder in folders for path in folder.glob(".*"))
        forms = ("cache/jobs/*", "**/extension+*")
        others = (path for form in forms for path in self.root.glob(form))
        kept = sorted(self.root.glob("temporary/lumicontainer-*/*-*"))
        recipes = [path.name.rpartition("-")[0] for path in kept]
        more = [path for path, name in zip(kept, recipes, strict=True) if recipes.count(name) > 1]
        return [str(path) for path in (*partial, *others, *more)]

    def write_base(self) -> None:
        """Build an image of the same tree by the engine alone, and a recipe that stands on it."""
        tree, file = self.root / "tree", self.root / "theirs.sif"
        offset = sif.root(self.image).offset
        check_output("unsquashfs", "-q", "-n", "-o", offset, "-d", tree, self.image)
        for path in (HOME, *(f"/usr/local/bin/{name}" for name in PROGRAMS)):
            _remove(tree / path[1:])
        check_output(ENGINE, "build", "--force", file, tree)
        _remove(tree)
        values = {"file": file, "sha256": digest(file)}
        write_files(self.recipes, {n: text.format(**values) for n, text in ON_A_FILE.items()})

    def lock_attack(self, kept: tuple[Path, ...]) -> Attack:
        """Return an attack after which there is an old lock, or a whole new one."""
        lock, whole = self.root / "pinned.lock.yaml", set[str]()
        words = ["lock", "pinned", "--recipes", self.recipes, "--output", lock]

        def require_lock() -> None:
            if not whole:
                lock.unlink(missing_ok=True)
                self.run(words)
                whole.update((OLD_LOCK, lock.read_text()))
            assert lock.read_text() in whole, lock.read_text()

        def prepare() -> None:
            require_lock()
            lock.write_text(OLD_LOCK)

        return Attack(words, prepare, kept, require_lock)

    def attacks(self) -> Iterator[tuple[str, Attack]]:
        recipe = ("small", "--recipes", self.recipes)
        out = self.root / "out.sif"
        kept = (self.root, self.root / "cache/objects", self.team)
        yield "lock", self.lock_attack(kept)
        verify = Attack(["verify", self.image, "-k", "greet"], clean=kept)
        yield "verify", verify
        yield "run", Attack(["run", self.image, "--", "sh", "-c", "sleep 1; true"], clean=kept)
        build = ["build", *recipe, "--output", out]

        def prepare() -> None:
            self.replace(out)
            self.refill("base")

        yield "build", Attack(build, prepare, kept, lambda: require_whole(out))
        extend = ["extend", self.image, "tabulate==0.9.0", "--into", out]
        yield "extend", Attack(extend, lambda: self.replace(out), kept, lambda: require_whole(out))
        only = ["build", "only", "--recipes", self.recipes, "--output", out, "--no-verify"]
        only += ["--rebuild"]
        yield "only", Attack(only, lambda: self.replace(out), kept, lambda: require_whole(out))
        if "SLURM_CONF" in os.environ:
            job = [*build, "--on", "standard-g", "--time", "20m", "--jobs", 2]
            yield "build-job", Attack(job, prepare, kept, lambda: require_whole(out))
            words = [*verify.words, "--partition", "standard-g"]
            yield "verify-job", Attack(words, clean=kept)
        publish = ["cache", "publish", *recipe]
        yield "publish", Attack(publish, lambda: _empty(self.team), kept)
        prune = ["cache", "prune", "--max-size", "1M"]
        yield (
            "prune",
            Attack(prune, lambda: self.refill("full"), kept, lambda: self.run(["cache", "verify"])),
        )
        if "DOCKER_HOST" in os.environ:
            name = f"lumicontainer-kills-{os.getpid()}"
            words = ["build", *recipe, "--output", f"docker:{name}:1", "--no-verify"]
            yield (
                "docker",
                Attack(words, lambda: tag_old(name), kept, lambda: require_tag(name), list_left),
            )


def require_whole(image: Path) -> None:
    """Require that every byte of an image is as it was written."""
    assert check_image(image).state == WHOLE, image


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _empty(folder: Path) -> None:
    for each in folder.iterdir():
        _remove(each)


def _docker(*words: str) -> str:
    return check_output("docker", *words).strip()


def tag_old(name: str) -> None:
    """Give the name to another image, which no build has made."""
    empty = "tar --create --files-from /dev/null"
    _docker("image", "rm", "--force", f"{name}:1")
    _docker("image", "prune", "--force")
    check_output("sh", "-c", f"{empty} | docker import --change 'LABEL {KEY_LABEL}=old' - {name}:1")


def require_tag(name: str) -> None:
    """Require that a name has the old image, or a whole new one."""
    form = f'{{{{index .Config.Labels "{KEY_LABEL}"}}}}'
    if _docker("image", "inspect", "--format", form, f"{name}:1") != "old":
        _docker("run", "--rm", "--network=host", f"{name}:1", "--", "true")


def list_left() -> list[str]:
    """Return what builds left in the engine; others may build by it.

    Docker keeps a whole image whose name another one has got.
    """
    unnamed = ("images", "--quiet", "--filter", "dangling=true", "--filter")
    expected = {*_docker(*unnamed, f"label={KEY_LABEL}").split()}
    expected |= {*_docker(*unnamed, f"label={LABEL}").split()}
    left = left_in_engine(lambda *words: run(["docker", *words]))
    return [*left, *({*_docker(*unnamed[:-1]).split()} - expected)]


def attack(place: Place, one: Attack, count: int) -> Counter[str]:
    """Disturb a command ``count`` times; return how often it ended in which way."""
    one.prepare()
    began = time.monotonic()
    place.run(one.words)
    lasts, ends = time.monotonic() - began, Counter[str]()
    for number in range(count):
        one.prepare()
        which = SIGNALS[number % len(SIGNALS)]
        process = place.start(one.words)
        time.sleep(random.uniform(0, 1.1 * lasts))
        process.send_signal(which)
        code = process.wait(PATIENCE)
        ends[f"{which.name} {code}"] += 1
        ends["odd exit code"] += which != signal.SIGKILL and code not in INTERRUPTED
        log = place.log()
        ends["traceback"] += "Traceback" in log or "a bug in" in log
        end = time.monotonic() + PATIENCE
        while place.living() and time.monotonic() < end:
            time.sleep(0.1)
        ends["left process"] += bool(place.living())
        one.whole()
        ends[f"left by {which.name} until the next"] += bool(one.list_left())
        place.run(one.words)
        partial = [*one.list_left(), *place.left(one.clean)]
        ends["left"] += bool(partial)
        if partial:
            print(partial[:3], file=sys.stderr)
    return ends


def main(root: str, count: str, *verbs: str) -> None:
    """Attack the verbs, or all."""
    place = Place(Path(root))
    bare = place.root / "bare.sif"
    place.run(["build", "bare", "--recipes", place.recipes, "--no-verify", "--output", bare])
    place.keep("base")
    place.run(["build", "small", "--recipes", place.recipes, "--output", place.image])
    place.keep("full")
    place.write_base()
    for name, one in place.attacks():
        if not verbs or name in verbs:
            print(name, dict(+attack(place, one, int(count))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
