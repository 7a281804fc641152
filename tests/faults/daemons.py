"""Kill a Docker daemon in builds, or fill its disk; see what they say and the next ones do.

``python -m tests.faults.daemons FOLDER COUNT [kill|fill]...`` is no test. It starts its own daemon,
as root. It kills the daemon at random instants, and gives its disk as many sizes.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lumicontainer.host.docker.daemon import FREE_SPACE

from ..conftest import ROOT
from ..integration.conftest import check_output, run
from ..integration.processes import until
from .kills import Place, list_left, require_tag, tag_old

EXPECTED = {0, 3, 5}
"""Exit codes of a build whose daemon ends: 0 if it ends too late."""
FILLED = {0, 8}
"""Exit codes of a build on a small disk: 0 if it is large enough."""
SMALLEST, LARGEST = 40, 1200
"""MiB of the disk of a daemon; it starts on the smallest, and builds on the largest."""
PATIENCE = 300


class Daemon:
    """A daemon with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, (folder / "log").open("a")
        text = (ROOT / "tests/docker/daemon.json").read_text()
        text = text.replace("@STATE@", str(folder)).replace("@GROUP@", "0")
        (folder / "daemon.json").write_text(
            text.replace("lumicontainer-test", "lumicontainer-kill")
        )
        self.start()

    def start(self) -> None:
        """Start the daemon, again while its containerd of before holds its files."""
        os.environ["DOCKER_HOST"] = f"unix://{self.folder}/docker.sock"
        self._run()
        assert until(self._answers, PATIENCE, pause=0.5)

    def _run(self) -> None:
        command = ["dockerd", "--config-file", str(self.folder / "daemon.json")]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            self._run()
        return run(["docker", "version"]).returncode == 0

    @contextmanager
    def on_disk(self, size: int) -> Iterator[Path]:
        """Give the daemon an empty disk of some MiB in the block; yield its folder."""
        data = self.folder / "data"
        self.stop()
        check_output("mount", "-t", "tmpfs", "-o", f"size={size}m", "none", data)
        try:
            self.start()
            yield data
        finally:
            self.stop()
            check_output("umount", "--recursive", data)
            self.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


def attack(
    place: Place, daemon: Daemon, words: list[object], name: str, count: int
) -> Counter[str]:
    """Kill the daemon in ``count`` builds; return how often they ended in which way."""
    place.environment["DOCKER_HOST"] = os.environ["DOCKER_HOST"]
    tag_old(name)
    began = time.monotonic()
    place.refill("base")
    place.run(words)
    lasts, ends = time.monotonic() - began, Counter[str]()
    for _ in range(count):
        tag_old(name)
        place.refill("base")
        (place.root / "small.sif").unlink(missing_ok=True)
        build = place.start(words)
        time.sleep(random.uniform(0, lasts))
        daemon.kill()
        code = build.wait(PATIENCE)
        log = place.log()
        ends[f"exit code {code}"] += 1
        ends["odd exit code"] += code not in EXPECTED
        ends["traceback"] += "Traceback" in log or "a bug in" in log
        ends["no word of the daemon"] += code != 0 and "Docker daemon" not in log
        daemon.start()
        require_tag(name)
        place.run(words)
        ends["left"] += bool(list_left())
    return ends


def fill(
    place: Place, daemon: Daemon, words: list[object], name: str, sizes: Sequence[int]
) -> Counter[str]:
    """Build on disks of these sizes; return how often builds ended in which way."""
    place.environment["DOCKER_HOST"] = os.environ["DOCKER_HOST"]
    ends = Counter[str]()
    for size in sizes:
        place.refill("base")
        (place.root / "small.sif").unlink(missing_ok=True)
        with daemon.on_disk(size) as disk:
            tag_old(name)
            code = place.start(words).wait(PATIENCE)
            log = place.log()
            ends[f"exit code {code}"] += 1
            ends["odd exit code"] += code not in FILLED
            ends["traceback"] += "Traceback" in log or "a bug in" in log
            ends["no hint"] += code != 0 and FREE_SPACE not in log
            check_output("mount", "-o", "remount,size=8g", disk)
            require_tag(name)
            place.run(words)
            require_tag(name)
            ends["left"] += bool(list_left())
    return ends


def main(root: str, count: str, *kinds: str) -> None:
    """Attack builds by Docker, and those that leave their image in it."""
    place = Place(Path(root))
    place.run(["build", "bare", "--recipes", place.recipes, "--no-verify"])
    place.keep("base")
    (place.root / "daemon").mkdir(exist_ok=True)
    daemon = Daemon(place.root / "daemon")
    name = f"lumicontainer-kills-{os.getpid()}"
    recipe = ["build", "small", "--recipes", place.recipes, "--no-verify"]
    step = (LARGEST - SMALLEST) // max(1, int(count) - 1)
    sizes = [SMALLEST + step * each for each in range(int(count))]
    try:
        for output in (f"docker:{name}:1", "small.sif"):
            words = [*recipe, "--runtime", "docker", "--output", output]
            if not kinds or "kill" in kinds:
                print(output, dict(+attack(place, daemon, words, name, int(count))), flush=True)
            if not kinds or "fill" in kinds:
                print(output, dict(+fill(place, daemon, words, name, sizes)), flush=True)
    finally:
        daemon.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
