"""Run a layer's script as a build does, in a tree where stand-ins lie at /opt."""

import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..conftest import ROOT

HERE = Path(__file__).parent
LAYERS = ROOT / "recipes" / "layers"

# Scripts write below /opt, which is an empty folder for each; what they leave there is kept.
_IN_A_TREE = """\
set -euo pipefail
mount -t tmpfs none /opt
cp -a "$STAND_IN_OPT/." /opt
cd "$STAGE"
code=0
bash "./$SCRIPT" || code=$?
cp -a /opt/. "$STAND_IN_OPT"
exit "$code"
"""


@dataclass(frozen=True)
class Ran:
    """Hold what a script left behind."""

    code: int
    output: str
    wheels: Path
    record: Path
    opt: Path


@dataclass(frozen=True)
class Place:
    """Hold where scripts of a test run: a virtual environment, wheels, and their own folders."""

    python: Path
    wheelhouse: Path
    folder: Path

    @property
    def opt(self) -> Path:
        """Return what the scripts find at /opt."""
        return self.folder / "opt"

    @property
    def sources(self) -> Path:
        """Return the folder of the layer's sources."""
        return self.folder / "sources"

    @property
    def site(self) -> Path:
        """Return the folder of the Python packages that are installed."""
        (folder,) = self.python.parents[1].glob("lib/python3.*/site-packages")
        return folder

    def run(self, layer: str, script: str, *, requirements: str = "", **values: str) -> Ran:
        """Run a script of a layer with these values, as the layer's step does."""
        stage = self.folder / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        shutil.copytree(LAYERS / layer, stage, ignore=shutil.ignore_patterns("checks"))
        if requirements:
            (stage / "requirements.txt").write_text(requirements)
        return self.run_file(stage / script, **values)

    def run_file(self, script: Path, **values: str) -> Ran:
        """Run a script in its folder; pip sees the wheelhouse and nothing else."""
        places = {
            name: self.folder / name
            for name in ("opt", "sources", "wheels", "record", "home", "tmp")
        }
        for path in places.values():
            path.mkdir(exist_ok=True)
        environment = {
            "PATH": f"{self.python.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "ROCM_PATH": "/opt/rocm",
            "HOME": places["home"],
            "TMPDIR": places["tmp"],
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": self.wheelhouse,
            "PIP_NO_CACHE_DIR": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "jobs": "3",
            "wheels": places["wheels"],
            "sources": places["sources"],
            "STAND_IN_OPT": places["opt"],
            "STAND_IN_RECORD": places["record"],
            "SCRIPT": script.name,
            "STAGE": script.parent,
            **values,
        }
        done = subprocess.run(
            ["unshare", "--map-root-user", "--mount", "bash", "-c", _IN_A_TREE],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout, places["wheels"], places["record"], self.opt)


def make_wheel(folder: Path, name: str, files: Mapping[str, Path | str]) -> Path:
    """Make a wheel that is called ``name``, with these files; a path's content keeps its mode."""
    project, version, tag = name.removesuffix(".whl").split("-", 2)
    info = f"{project}-{version}.dist-info"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {tag}\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for inside, content in {
            **files,
            **{f"{info}/{file}": text for file, text in texts.items()},
        }.items():
            if isinstance(content, Path):
                wheel.write(content, inside)
            else:
                wheel.writestr(inside, content)
    return folder / name
