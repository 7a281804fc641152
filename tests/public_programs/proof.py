"""Public programs run unchanged in the image, with what ``lumicontainer extend`` gives them.

``make programs`` runs it: sources come from GitHub by git or from Debian by apt, packages from the
index. If no index has torchvision for the image's PyTorch, it is compiled from source.
"""

import functools
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from lumicontainer.host.site import DEBIAN_KEYRING, debian_mirror

from ..integration.conftest import check_output, lumicontainer, srun, started

HERE = Path(__file__).parent
IMAGE = HERE.parents[1] / "pytorch-deepspeed.sif"
PROGRAMS: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "programs.yaml").read_text())
OFFLINE = {"HF_HUB_OFFLINE": "1"}
KEPT = HERE.parents[1] / "build/programs"
"""Compiling torchvision takes ten minutes: what it gave is kept for later calls."""
USERNS = {"APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"}
"""Containers start in a user namespace, as a site sets in the engine's configuration."""


class Program:
    """A program's checkout, its data, and the image with its packages."""

    def __init__(self, name: str, folder: Path) -> None:
        self.entry = PROGRAMS[name]
        self.checkout = folder / "checkout"
        self.place = self.checkout / self.entry.get("folder", ".")
        self.data = folder / "data"
        self.extension: list[object] = []

    def git(self, *words: object) -> str:
        """Run git in the checkout, with hooks off."""
        return check_output("git", "-C", self.checkout, "-c", "core.hooksPath=/dev/null", *words)

    def fetch(self) -> None:
        """Check out the wanted folders of the program, and copy what prepares data."""
        if "debian" in self.entry:
            shutil.copytree(unpack_source(**self.entry["debian"]), self.checkout)
            self.git("init", "--quiet")
            self.git("add", "--all")
        else:
            self._fetch_commit()
        self.data.mkdir()
        for script in HERE.glob("tiny_*.py"):
            shutil.copy(script, self.data)

    def _fetch_commit(self) -> None:
        self.checkout.mkdir()
        self.git("init", "--quiet")
        self.git("remote", "add", "origin", self.entry["repository"])
        self.git("sparse-checkout", "set", *self.entry["folders"])
        options = ("--depth=1", "--filter=blob:none", "origin", self.entry["commit"])
        self.git("fetch", "--quiet", *options)
        self.git("checkout", "--quiet", "FETCH_HEAD")

    def extend(self) -> None:
        """Add the program's packages."""
        packages = [*self.entry.get("extend", ())]
        if "torchvision" in packages:
            packages.remove("torchvision")
            self.extension += ["--with", add_torchvision()]
        if packages:
            file = self.data / "packages.sqsh"
            lumicontainer("extend", IMAGE, *packages, "-o", file, code=0)
            self.extension += ["--with", file]

    def words(self, line: str) -> list[object]:
        """Return the options and words that run a line of the data in the image."""
        command = [word.replace("{data}", str(self.data)) for word in shlex.split(self.entry[line])]
        return ["run", *self.extension, IMAGE, "--", *command]

    def run(self, line: str) -> str:
        """Run a line of the data; return all that it prints."""
        done = lumicontainer(*self.words(line), cwd=self.place, env=OFFLINE)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return str(done.stdout + done.stderr)

    def run_step(self) -> str:
        """Run the program as one task on each of two nodes; return all that it prints."""
        cluster = {**started("cluster"), **USERNS}
        command = (f"--chdir={self.place}", sys.executable, "-m", "lumicontainer")
        done = srun(cluster, *command, *self.words("step"), tasks=2, mpi="pmi2")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return str(done.stdout + done.stderr)


@functools.cache
def unpack_source(*, release: str, package: str, version: str) -> Path:
    """Unpack the archive beside a source package of Debian, whose hash apt checks; return it."""
    place = KEPT / f"{package}-{version}"
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "source"):
        (place / folder).mkdir(parents=True)
    source = f"deb-src [signed-by={DEBIAN_KEYRING}] {debian_mirror(release)} {release} main\n"
    (place / "sources.list").write_text(source)
    places = {
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": place / "lists",
        "Dir::Cache": place / "cache",
    }
    apt = ("apt-get", "--quiet", *(f"-o{name}={value}" for name, value in places.items()))
    check_output(*apt, "update")
    words = ("source", "--download-only", "--tar-only", f"{package}={version}")
    check_output(*apt, *words, cwd=place)
    (archive,) = place.glob("*.orig.tar.*")
    check_output("tar", "-xf", archive, "-C", place / "source", "--strip-components=1")
    return place / "source"


@functools.cache
def add_torchvision() -> Path:
    """Return an extension with torchvision: of an index that has it for the image, or compiled."""
    KEPT.mkdir(parents=True, exist_ok=True)
    done = lumicontainer("extend", IMAGE, "torchvision", "-o", KEPT / "index.sqsh")
    if done.returncode == 0:
        return KEPT / "index.sqsh"
    source = unpack_source(**PROGRAMS["torchvision"]["debian"])
    lumicontainer("extend", IMAGE, source, "-o", KEPT / "torchvision.sqsh", code=0)
    return KEPT / "torchvision.sqsh"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_public_program_runs_unchanged(name: str, tmp_path: Path) -> None:
    program = Program(name, tmp_path)
    program.fetch()
    program.extend()
    if "prepare" in program.entry:
        program.run("prepare")
    start = time.monotonic()
    assert re.search(program.entry["expect"], program.run("command"))
    print(f"{name}: {time.monotonic() - start:.0f} s")
    assert program.git("diff", "--name-only") == ""


@pytest.mark.parametrize("name", [name for name, entry in PROGRAMS.items() if "step" in entry])
def test_a_program_of_mpi_runs_on_two_nodes(name: str, tmp_path: Path) -> None:
    program = Program(name, tmp_path)
    program.fetch()
    program.extend()
    assert re.search(program.entry["step_expect"], program.run_step())
