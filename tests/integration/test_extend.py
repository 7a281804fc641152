"""Packages are put on a finished image, by real uv, engine and mksquashfs."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.version import Version

from lumicontainer.extending.record import read_record

from ..cli.conftest import refused, succeeded
from ..namespaces import owned, prepared
from ..packages import write_wheel
from ..unit.host.test_fetch import UPSTREAM, Upstream, upstream
from .conftest import ENGINE, lumicontainer, run, write_small
from .processes import started

__all__ = ["upstream"]

PROJECT = """\
[project]
name = "mycode"
version = "1.0"
dependencies = ["tabulate"]
scripts = {mytrain = "mycode:main"}
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
"""
TOOL = """\
[project]
name = "tool"
dynamic = ["version"]
[build-system]
requires = ["setuptools", "setuptools_scm"]
build-backend = "setuptools.build_meta"
[tool.setuptools]
py-modules = ["tool"]
[tool.setuptools_scm]
"""
"""Its version is its tag."""
IMAGE = "pytorch-deepspeed.sif"
EXTEND = (sys.executable, "-m", "lumicontainer", "extend", IMAGE)
TABULATE = ("tabulate==0.9.0", "-o", "mine.sqsh")
USES = "import docopt, mycode, tabulate, torch; print(tabulate.__file__, torch.__file__)"
SITE = "lib/python3.11/site-packages"
SEEN = f"/user-software/{SITE}/tabulate/__init__.py /opt/venv/{SITE}/torch/__init__.py\n"


@pytest.fixture
def folder(tmp_path: Path, image: Path) -> Path:
    """Return a folder with the image and with code of the user."""
    folder = tmp_path / "mine"
    code = folder / "code/src/mycode"
    code.mkdir(parents=True)
    (folder / "code/pyproject.toml").write_text(PROJECT)
    (code / "__init__.py").write_text("def main(): print('trains')\n")
    (folder / image.name).symlink_to(image)
    return folder


def extend(folder: Path, *words: object, env: dict[str, str] | None = None):
    return lumicontainer("extend", IMAGE, *words, cwd=folder, env=env)


def in_image(folder: Path, *command: object, extensions: Sequence[str] = ("mine.sqsh",)):
    options = [word for each in extensions for word in ("--with", each)]
    return lumicontainer("run", *options, IMAGE, "--", *command, cwd=folder)


def test_packages_are_added_beside_the_image_and_nothing_else_changes(folder: Path) -> None:
    file = folder / "mine.sqsh"
    # One is a source, and one is in the image.
    (folder / "requirements.txt").write_text("docopt\neinops\n")
    before = {path.name for path in folder.iterdir()}
    digest = hashlib.file_digest((folder / IMAGE).open("rb"), "sha256").digest()
    words = ("-r", "requirements.txt", "--editable", "code", "-o", "mine.sqsh", "--json")
    done = succeeded(extend(folder, *words))
    assert "3 packages added" in done.stderr
    added = dict(re.findall(r"(?m)^\+ (\S+)==(\S+)", done.stderr))
    assert [*added] == ["docopt", "mycode", "tabulate"]
    assert json.loads(done.stdout) == {"path": str(file), "added": added}
    assert {path.name for path in folder.iterdir()} - before == {"mine.sqsh", "pylock.mine.toml"}
    assert hashlib.file_digest((folder / IMAGE).open("rb"), "sha256").digest() == digest
    made = file.stat().st_mtime_ns
    done = extend(folder, *words)
    assert "mine.sqsh is up to date" in done.stderr
    assert json.loads(done.stdout) == {"path": str(file), "added": None}
    assert file.stat().st_mtime_ns == made
    done = in_image(folder, "python3", "-c", USES)
    assert (done.stdout, done.returncode) == (SEEN, 0), done.stderr
    (folder / "code/src/mycode/__init__.py").write_text("def main(): print('trains better')\n")
    assert in_image(folder, "mytrain").stdout == "trains better\n"
    mount = f"{file}:/user-software:image-src=/"
    start = ("--silent", "exec", "--userns", "--bind", mount, "--bind", folder / "code", IMAGE)
    assert run([ENGINE, *start, "python3", "-I", "-c", USES], cwd=folder).stdout == SEEN
    assert f"--bind {mount}" in lumicontainer("binds", "--with", file, IMAGE, cwd=folder).stdout


@pytest.mark.parametrize(
    ("package", "module", "oldest"),
    [("hydra-core", "hydra", "1.3.2"), ("seqeval", "seqeval", "1.2.2")],
)
def test_a_package_that_needs_a_source_keeps_its_newest_version(
    folder: Path, package: str, module: str, oldest: str
) -> None:
    succeeded(extend(folder, package, "-o", "mine.sqsh"))
    version = read_record(folder / "mine.sqsh").packages[package]
    assert Version(oldest) <= Version(version)
    assert not Version(version).is_prerelease
    assert in_image(folder, "python3", "-c", f"import {module}").returncode == 0


def test_a_conflict_with_the_image_is_shown_with_the_ways_out(folder: Path) -> None:
    done = extend(folder, "torchvision==0.24.1", "litgpt==0.5.13", "-o", "more.sqsh")
    assert done.returncode == 2
    tree = re.search(r"(?s)why: (.*)\n   hint: (.*)", done.stderr)
    assert tree, done.stderr
    lines = [" ".join(line.split()) for line in tree[1].splitlines()]
    assert lines[:3] == [
        "torchvision 0.24.1",
        "└── needs torch ==2.9.1; the image has 2.13.0+cpu,"
        " and deepspeed, horovod were compiled against it",
        "litgpt 0.5.13",
    ]
    assert re.fullmatch("└── needs huggingface-hub >=0.30,<1.4; the image has [0-9.]+", lines[3])
    assert "--allow-change torch --allow-change huggingface-hub" in tree[2]
    assert not (folder / "more.sqsh").exists()


def test_what_was_compiled_for_another_build_of_pytorch_is_refused(folder: Path) -> None:
    done = extend(folder, "torchvision==0.28.0", "-o", "vision.sqsh")
    missing = "torch 2.13.0+cpu of the image has no libc10_cuda.so, libtorch_cuda.so"
    index = "https://download.pytorch.org/whl/cpu"
    refused(done, "error: torchvision was compiled for another build of PyTorch", missing, index)


def test_a_folder_that_no_container_can_see_is_no_conflict_of_packages(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as hidden:
        done = extend(folder, *TABULATE, env={"LUMICONTAINER_TMPDIR": hidden})
    says = ("the engine started no container of the image", "with LUMICONTAINER_TMPDIR")
    refused(done, *says, code=3)


@pytest.fixture
def small(folder: Path) -> Path:
    """Return a folder with an extension of one package."""
    succeeded(extend(folder, *TABULATE))
    return folder


def test_later_extensions_win_with_a_warning(small: Path) -> None:
    assert extend(small, "tabulate==0.8.10", "-o", "other.sqsh").returncode == 0
    program = "import tabulate; print(tabulate.__version__)"
    done = in_image(small, "python3", "-c", program, extensions=("mine.sqsh", "other.sqsh"))
    assert done.stdout == "0.8.10\n", done.stderr
    assert "warning: other.sqsh has tabulate 0.8.10, and mine.sqsh has 0.9.0" in done.stderr


def test_an_extension_of_an_image_that_was_rebuilt_names_the_command(small: Path) -> None:
    image = small / IMAGE
    original = image.resolve()
    image.unlink()
    shutil.copy(original, image)
    with image.open("r+b") as file:
        file.seek(60)  # In the identity.
        file.write(b"\1\2\3")
    command = "lumicontainer extend pytorch-deepspeed.sif tabulate==0.9.0 -o mine.sqsh"
    says = ("mine.sqsh was made for another image", command)
    refused(in_image(small, "true"), *says, code=4)


def test_pip_in_a_container_names_the_verb(folder: Path) -> None:
    done = in_image(folder, "pip", "install", "tabulate", extensions=())
    assert done.returncode != 0
    assert done.stderr.startswith("ERROR: Invalid requirement: 'this image is read-only: ")
    assert "on the host run: lumicontainer extend IMAGE PACKAGE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_killed_run_leaves_the_old_file_and_the_next_run_removes_the_rest(small: Path) -> None:
    before = (small / "mine.sqsh").read_bytes()
    words = ("tabulate==0.8.10", "-o", "mine.sqsh")
    with started([*EXTEND, *words], cwd=small) as child:
        assert any("install" in line for line in child.stderr)
        child.kill()
    assert (small / "mine.sqsh").read_bytes() == before
    assert extend(small, *words).returncode == 0
    assert (small / "mine.sqsh").read_bytes() != before
    assert not list(small.glob(".mine*"))


def test_a_full_disk_is_named_and_nothing_is_left(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=8k,{owned()} none "{disk}"'
    command = [*EXTEND, "tabulate==0.9.0", "-o", f"{disk}/mine.sqsh"]
    show = f'"$@"; code=$?; ls -A "{disk}"; exit $code'
    done = run([*prepared("mount", mount), "bash", "-c", show, "bash", *command], cwd=folder)
    assert (done.returncode, done.stdout) == (8, ""), done.stderr
    assert "hint: free some space" in done.stderr


def test_a_shared_file_system_gets_the_extension_and_its_lock_alone(folder: Path) -> None:
    log, shared = folder.parent / "strace", folder / "shared"
    shared.mkdir()
    calls = "creat,open,openat,mkdir,mkdirat,mknod,link,linkat,symlink,symlinkat,rename,renameat2"
    trace = ["strace", "-f", "-qq", "-e", "signal=none", "-e", f"trace={calls}", "-o", log]
    words = ("extend", folder / "pytorch-deepspeed.sif", "tabulate==0.9.0", "-q")
    command = [sys.executable, "-m", "lumicontainer", *words, "-o", shared / "mine.sqsh"]
    succeeded(run([*trace, *command], cwd="/"))
    done_there = re.compile(rf'(?m)(\w+)\(.*"{re.escape(str(shared))}/([^"]+)"(.*) = \d+$')
    created, named = set(), set()
    for call, name, rest in done_there.findall(log.read_text()):
        if call.startswith("rename"):
            named.add(name)
        elif not call.startswith("open") or "O_CREAT" in rest:
            created.add(name)
    assert named == {path.name for path in shared.iterdir()} == {"mine.sqsh", "pylock.mine.toml"}
    # One file is locked, and removed at the end.
    assert len(created - {".lumicontainer.lock"}) == 2, created


def test_an_image_is_asked_once_for_its_packages(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def asks(output: str) -> bool:
        words = ("tabulate==0.9.0", "-v", "-o", output)
        done = succeeded(extend(folder, *words, env={"LUMICONTAINER_CACHE": str(cache)}))
        return "inside.image.facts" in done.stderr

    assert [asks("one.sqsh"), asks("two.sqsh")] == [True, False]
    (known,) = (cache / "facts").iterdir()
    assert {each.stat().st_mode & 0o077 for each in (cache, known.parent)} == {0}
    known.write_text("damaged")
    assert asks("three.sqsh")


def test_two_different_runs_at_once_leave_one_of_them_whole(folder: Path) -> None:
    requirements = ("tabulate==0.9.0", "tabulate==0.8.10")
    command = [*EXTEND, "-q", "-o", "mine.sqsh"]
    both = [subprocess.Popen([*command, each], cwd=folder) for each in requirements]
    assert [each.wait() for each in both] == [0, 0]
    names = {path.name for path in folder.iterdir()}
    assert names == {"code", IMAGE, "mine.sqsh", "pylock.mine.toml"}
    record = read_record(folder / "mine.sqsh")
    lock = (folder / "pylock.mine.toml").read_text()
    assert f'version = "{record.packages["tabulate"]}"' in lock
    last = f"tabulate=={record.packages['tabulate']}"
    assert "mine.sqsh is up to date" in extend(folder, last, "-o", "mine.sqsh").stderr
    (folder / "pylock.mine.toml").write_text(lock.replace(last.partition("==")[2], "0"))
    assert "1 package added" in extend(folder, last, "-o", "mine.sqsh").stderr
    assert (folder / "pylock.mine.toml").read_text() == lock


def test_a_package_of_the_image_that_may_change_is_hidden_with_a_warning(folder: Path) -> None:
    words = ("einops==0.8.0", "--allow-change", "einops", "-o", "mine.sqsh")
    done = succeeded(extend(folder, *words))
    assert re.search(r"warning: einops 0\.8\.0 hides \S+ of the image", done.stderr)
    program = "import einops; print(einops.__version__, einops.__file__)"
    imported = in_image(folder, "python3", "-c", program)
    assert imported.stdout == f"0.8.0 /user-software/{SITE}/einops/__init__.py\n"
    line = r"hidden by the extension in /user-software: einops 0\.8\.0 hides \d"
    for command in (("lumi-entry", "--", "true"), ("lumi-verify", "-k", "image/record")):
        assert re.search(line, succeeded(in_image(folder, *command)).stderr)


def test_code_that_hatchling_builds_is_bound_in_place(folder: Path) -> None:
    text = PROJECT.replace("setuptools.build_meta", "hatchling.build")
    (folder / "code/pyproject.toml").write_text(text.replace("setuptools", "hatchling"))
    succeeded(extend(folder, "--editable", "code", "-o", "mine.sqsh"))
    (folder / "code/src/mycode/__init__.py").write_text("def main(): print('trains better')\n")
    done = in_image(folder, "mytrain")
    assert done.stdout == "trains better\n", done.stderr


TORCH = """\
cd /usr/local/lib/python3.11/dist-packages && mkdir torch torch-1.0.dist-info
echo {content} >torch/__init__.py
echo torch/__init__.py,sha256={content}, >torch-1.0.dist-info/RECORD
printf 'Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n' >torch-1.0.dist-info/METADATA
"""


def test_other_files_of_the_same_version_of_torch_are_named(tmp_path: Path) -> None:
    for content in ("first", "second"):
        script = {"layers/greet/install.sh": TORCH.format(content=content)}
        recipe = write_small(tmp_path / content, script) / "small.yaml"
        image = tmp_path / f"{content}.sif"
        succeeded(lumicontainer("build", recipe, "--output", image, "--no-verify"))
    words = ("tabulate", "-o", "mine.sqsh")
    succeeded(lumicontainer("extend", "first.sif", *words, cwd=tmp_path))
    start = ("run", "--with", "mine.sqsh", "second.sif", "--", "true")
    why = "the files of torch 1.0 differ, and packages are compiled against them"
    hint = "hint: make it for this image: lumicontainer extend"
    refused(lumicontainer(*start, cwd=tmp_path), why, hint, code=4)
    second = lumicontainer("extend", "second.sif", *words, cwd=tmp_path)
    assert "1 package added" in second.stderr


def test_code_of_a_source_runs_in_the_image_and_sees_no_file_of_the_host(folder: Path) -> None:
    home = os.path.expanduser("~")  # noqa: PTH111
    (folder / "code/setup.py").write_text(
        "import os, sys\nfrom setuptools import setup\n"
        f"assert os.path.exists('/opt/lumicontainer') and not os.path.exists('{home}/.bashrc')\n"
        "print(sys.prefix, file=open('prefix', 'w'))\nsetup()\n"
    )
    succeeded(extend(folder, "--editable", "code", "-o", "mine.sqsh"))
    assert (folder / "code/prefix").read_text() == "/opt/venv\n"


def test_a_new_image_has_the_packages_as_a_layer(folder: Path) -> None:
    succeeded(extend(folder, "tabulate==0.9.0", "--into", "new.sif"))
    program = "import tabulate, torch; print(tabulate.__file__)"
    words = ("--silent", "exec", "--userns", "new.sif", "python3", "-c", program)
    printed = run([ENGINE, *words], cwd=folder).stdout
    assert re.fullmatch(rf"/opt/user-software/\d\d/{SITE}/tabulate/__init__.py\n", printed)
    assert lumicontainer("inspect", "--check", "new.sif", cwd=folder).returncode == 0
    assert "tabulate" in lumicontainer("inspect", "--packages", "new.sif", cwd=folder).stdout
    assert "pkg:pypi/tabulate@0.9.0" in lumicontainer("sbom", "new.sif", cwd=folder).stdout
    statement = json.loads(lumicontainer("inspect", "--provenance", "new.sif", cwd=folder).stdout)
    rows = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    (package,) = (each for each in rows if each["uri"] == "pkg:pypi/tabulate@0.9.0")
    assert len(package["digest"]["sha256"]) == 64
    words = ("run", "new.sif", "--", "lumi-verify", "-k", "image/record")
    succeeded(lumicontainer(*words, cwd=folder))
    again = extend(folder, "tabulate==0.9.0", "--into", "new.sif")
    assert "new.sif is up to date" in again.stderr
    for state in ("tabulate==0.9.0\n", "new.sif is up to date\n"):
        date = {"SOURCE_DATE_EPOCH": "0"}
        dated = extend(folder, "tabulate==0.9.0", "--into", "new.sif", env=date)
        assert state in dated.stderr
    labels = run([ENGINE, "inspect", "--labels", "new.sif"], cwd=folder).stdout
    assert "org.label-schema.build-date: Thursday_1_January_1970_0:0:0_UTC\n" in labels


SETUP = """\
from setuptools import setup
name = "in" + "_code"
setup(name=name, version="2.0", py_modules=[name])
"""
"""A project whose name is not there as data."""


def test_packages_of_git_files_and_folders_are_added(
    folder: Path, upstream: Upstream, tmp_path: Path
) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": TOOL, "tool.py": "x = 1\n"})
    upstream.git("tag", "v1.5", at=tool)
    mirrors = tmp_path / "config/lumicontainer/mirrors.yaml"
    mirrors.parent.mkdir(parents=True)
    mirrors.write_text(f"{UPSTREAM}: {upstream.served}/\n")
    write_wheel(folder, "ready", "1.0")
    (folder / "old").mkdir()
    (folder / "old/setup.py").write_text(SETUP)
    (folder / "old/in_code.py").touch()
    lines = (f"git+{UPSTREAM}tool@v1.5", "./ready-1.0-py3-none-any.whl", "./code", "./old")
    (folder / "requirements.txt").write_text("\n".join(lines))
    words = ("-r", "requirements.txt", "-o", "mine.sqsh")
    done = succeeded(extend(folder, *words, env={"XDG_CONFIG_HOME": str(tmp_path / "config")}))
    assert f"v1.5 is the commit {upstream.head(tool)}" in done.stderr
    names = ["in-code==2.0", "mycode==1.0", "ready==1.0", "tabulate==", "tool==1.5"]
    added = re.findall(r"(?m)^\+ (\S+)$", done.stderr)
    assert [each.startswith(name) for each, name in zip(added, names, strict=True)] == [True] * 5
    assert upstream.head(tool) in (folder / "pylock.mine.toml").read_text()
    program = "import mycode, ready, tool; print(mycode.__file__)"
    imported = in_image(folder, "python3", "-c", program)
    assert imported.stdout == f"/user-software/{SITE}/mycode/__init__.py\n"
