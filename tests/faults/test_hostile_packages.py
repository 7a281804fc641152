"""Packages that ``extend`` adds reach neither files of the host nor later extensions."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.extending.extension import Order
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.extending.record import read_record

from ..integration.conftest import recipes, small
from ..integration.processes import until
from . import hostile

__all__ = ["recipes", "small"]

SITE = "lib/python3.11/site-packages"
LIMIT = 120
"""Seconds that end a call that waits for ever; it takes five."""


class Host:
    """An image, packages to add, and files of the user that no container may reach."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image, self.folder = image, folder
        self.packages, self.victim = folder / "packages", folder / "victim"
        self.packages.mkdir()
        self.victim.mkdir(mode=0o700)
        (self.victim / "file").write_text("mine\n")
        (self.victim / "file").chmod(0o600)
        self.attack = hostile.FOLDERS.format(victim=str(self.victim))
        cache = folder / "cache"
        cache.mkdir(mode=0o700)
        self.environment = {"LUMICONTAINER_CACHE": str(cache)}

    def start(self, *words: str, output: str = "mine.sqsh") -> "subprocess.Popen[str]":
        """Begin to add packages to the image."""
        settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages)}
        command = [sys.executable, "-m", "lumicontainer", "extend", str(self.image), *words]
        return subprocess.Popen(
            [*command, "-o", str(self.folder / output)],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **settings, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def extend(self, *words: str, output: str = "mine.sqsh") -> "subprocess.CompletedProcess[str]":
        """Add packages to the image; require that nothing of the user has changed."""
        with self.start(*words, output=output) as child:
            try:
                printed = child.communicate(timeout=LIMIT)
            finally:
                child.kill()
        done = subprocess.CompletedProcess(child.args, child.returncode, *printed)
        assert [path.name for path in self.victim.iterdir()] == ["file"]
        assert (self.victim / "file").read_text() == "mine\n"
        assert self.victim.stat().st_mode & 0o777 == 0o700
        assert (self.victim / "file").stat().st_mode & 0o777 == 0o600
        assert "a bug in" not in done.stderr
        return done

    def content(self, name: str, output: str = "mine.sqsh") -> str:
        """Return the text of a file of an extension."""
        command = ["unsquashfs", "-cat", str(self.folder / output), f"{SITE}/{name}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def host(small: Path, tmp_path: Path) -> Host:
    return Host(small, tmp_path)


def test_a_build_that_does_nothing_is_ended_and_named(host: Host) -> None:
    hostile.write_source(host.packages, "import time; time.sleep(100000)")
    host.environment["LUMICONTAINER_SILENCE"] = "0.1"
    done = host.extend("evil")
    assert done.returncode == 5
    assert "the build of evil 1.0 was ended" in done.stderr
    assert "did nothing for 0.1 min" in done.stderr


def test_code_of_a_wheel_does_not_run_when_it_is_installed(host: Host) -> None:
    attack = f"{host.attack}\neverywhere(link)\n"
    files = {"sitecustomize.py": attack, "evil.pth": "import sitecustomize\n", "evil.py": ""}
    hostile.write_wheel(host.packages, "evil", files)
    done = host.extend("evil")
    assert done.returncode == 0, done.stderr
    assert host.content("sitecustomize.py") == attack


@pytest.mark.parametrize("kind", ["link", "folder_link", "fifo", "sock", "huge"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_a_build_leaves_leads_nowhere(host: Host, kind: str, when: str) -> None:
    hostile.write_source(host.packages, host.attack, **{when: f"everywhere({kind})"})
    done = host.extend("evil")
    assert done.returncode in (0, 2, 5), done.stderr


def test_a_process_that_outlives_its_build_reaches_nothing(host: Host) -> None:
    attack = hostile.LATER.replace("\n", "\n    ").strip()
    hostile.write_source(host.packages, host.attack, after=attack)
    done = host.extend("evil")
    assert done.returncode in (0, 2, 5), done.stderr


def test_a_build_changes_no_package_of_a_later_extension(host: Host) -> None:
    text = "ANSWER = 'good'\n"
    hostile.write_wheel(host.packages, "good", {"good.py": text})
    attack = hostile.POISON.replace("\n", "\n    ").strip()
    hostile.write_source(host.packages, host.attack, before=attack)
    for number, words in enumerate((["good"], ["good", "evil"], ["good"])):
        done = host.extend(*words, output=f"{number}.sqsh")
        assert done.returncode == 0, done.stderr
        assert host.content("good.py", f"{number}.sqsh") == text


CODE = """\
import os, sys
sys.path.insert(0, os.getcwd())
from backend import *

def note():
    with open("note", "a") as file:
        file.write("the backend of the code may write here\\n")

def prepare_metadata_for_build_editable(*words):
    note()
    return prepare_metadata_for_build_wheel(*words)

def build_editable(*words):
    note()
    open("setup.cfg", "w").write("[metadata]\\n")
    return build_wheel(*words)
"""
"""The backend of the user's own code: it writes into the folder, as many do."""


def write_code(host: Host) -> Path:
    """Write code of the user whose backend leaves a note beside it."""
    code = host.folder / "code"
    code.mkdir()
    files = hostile.wheel_files("mine", {"mine.pth": f"{code}\n"})
    backend = hostile.BACKEND.format(attack="", files=files, before="pass", after="pass")
    (code / "backend.py").write_text(backend.replace("evil", "mine"))
    (code / "code_backend.py").write_text(CODE)
    project = hostile.PROJECT.replace('"backend"', '"code_backend"')
    (code / "pyproject.toml").write_text(project)
    return code


def test_code_of_the_user_is_changed_by_its_own_backend_alone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in host.environment.items():
        monkeypatch.setenv(name, value)
    code = write_code(host)
    before = {path.name: path.read_text() for path in code.iterdir()}
    hostile.write_source(host.packages, f"{host.attack}\n{hostile.CHANGE}")
    key = Order(host.image, read_additions(["evil"], [], [code]), frozenset(), "").key()
    done = host.extend("evil", "--editable", str(code))
    assert done.returncode == 0, done.stderr
    assert read_record(host.folder / "mine.sqsh").key == key
    assert {"note", "setup.cfg", *before} == {path.name for path in code.iterdir()} - {
        "__pycache__"
    }
    assert {name: (code / name).read_text() for name in before} == before


def test_a_package_does_not_run_while_the_code_of_the_user_is_built(host: Host) -> None:
    code = write_code(host)
    change = f"open({str(code / 'changed')!r}, 'w')"
    hostile.write_wheel(host.packages, "evil", {"sitecustomize.py": change, "evil.py": ""})
    done = host.extend("evil", "--editable", str(code))
    assert done.returncode == 0, done.stderr
    assert (code / "note").exists()
    assert not (code / "changed").exists()


def test_variables_of_the_engine_mount_nothing_where_sources_are_built(host: Host) -> None:
    names = ("SINGULARITY_BIND", "APPTAINER_BINDPATH")
    host.environment |= dict.fromkeys(names, str(host.victim))
    change = f"open({str(host.victim / 'changed')!r}, 'w')"
    hostile.write_source(host.packages, f"try: {change}\nexcept OSError: pass")
    done = host.extend("evil")
    assert done.returncode == 0, done.stderr


def test_an_image_that_is_replaced_meanwhile_gets_no_extension(host: Host) -> None:
    image, go = host.folder / "own.sif", host.packages / "go"
    host.image = Path(shutil.copy(host.image, image))
    host.environment["LUMICONTAINER_TMPDIR"] = str(host.folder)
    begins = "import time; open(os.path.join(os.environ['TMPDIR'], 'begun'), 'w').close()"
    waits = f"{begins}\n    while not os.path.exists({str(go)!r}): time.sleep(0.1)"
    hostile.write_source(host.packages, "", before=waits)
    with host.start("evil") as child:
        assert child.stderr is not None
        assert until(lambda: [*host.folder.glob("lumicontainer-*/*/*/begun")], LIMIT)
        Path(shutil.copy2(image, f"{image}.new")).replace(image)
        go.touch()
        assert "error: the image was replaced meanwhile" in child.stderr.read()
    assert child.returncode == 4
    assert not (host.folder / "mine.sqsh").exists()
