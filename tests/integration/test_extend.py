"""Packages are put on a finished image, by real uv, engine and mksquashfs."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.extending.record import read_record

from ..namespaces import owned, prepared
from .conftest import ENGINE, lumicontainer, run, write_small

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


def extend(folder: Path, *words: object):
    return lumicontainer("extend", "pytorch-deepspeed.sif", *words, cwd=folder)


def in_image(folder: Path, *words: object):
    return lumicontainer("run", *words, cwd=folder)


def test_packages_are_added_beside_the_image_and_nothing_else_changes(folder: Path) -> None:
    image, file = "pytorch-deepspeed.sif", folder / "mine.sqsh"
    (folder / "requirements.txt").write_text(
        "docopt\neinops\n"
    )  # One source, and one of the image.
    before = {path.name for path in folder.iterdir()}
    digest = hashlib.file_digest((folder / image).open("rb"), "sha256").digest()
    words = ("-r", "requirements.txt", "--editable", "code", "-o", "mine.sqsh")
    done = extend(folder, *words)
    assert done.returncode == 0, done.stderr
    assert "3 packages added" in done.stderr  # docopt, mycode, tabulate
    assert {path.name for path in folder.iterdir()} - before == {"mine.sqsh", "pylock.mine.toml"}
    assert hashlib.file_digest((folder / image).open("rb"), "sha256").digest() == digest
    made = file.stat().st_mtime_ns
    assert "mine.sqsh is up to date" in extend(folder, *words).stderr
    assert file.stat().st_mtime_ns == made
    done = in_image(folder, "--with", file, image, "--", "python3", "-c", USES)
    assert (done.stdout, done.returncode) == (SEEN, 0), done.stderr
    (folder / "code/src/mycode/__init__.py").write_text("def main(): print('trains better')\n")
    assert in_image(folder, "--with", file, image, "--", "mytrain").stdout == "trains better\n"
    mount = f"{file}:/user-software:image-src=/"
    words = ("--silent", "exec", "--userns", "--bind", mount, "--bind", folder / "code", image)
    assert run([ENGINE, *words, "python3", "-I", "-c", USES], cwd=folder).stdout == SEEN
    binds = lumicontainer("binds", "--with", file, image, cwd=folder).stdout
    assert f"--bind {mount}" in binds


def test_a_conflict_with_the_image_is_shown_with_the_ways_out(folder: Path) -> None:
    done = extend(folder, "vllm==0.16.0", "-o", "vllm.sqsh")
    assert done.returncode == 2
    tree = re.search(r"(?s)why: (.*)\n   hint: (.*)", done.stderr)
    assert tree, done.stderr
    assert [" ".join(line.split()) for line in tree[1].splitlines()] == [
        "vllm 0.16.0",
        "├── needs torch ==2.9.1; the image has 2.13.0+cpu,"
        " and horovod, deepspeed were compiled against it",
        "└── needs transformers >=4.56.0,<5; the image has 5.23.0",
    ]
    assert "--allow-change torch --allow-change transformers" in tree[2]
    assert not (folder / "vllm.sqsh").exists()


def test_what_was_compiled_for_another_build_of_pytorch_is_refused(folder: Path) -> None:
    done = extend(folder, "torchvision==0.28.0", "-o", "vision.sqsh")
    assert done.returncode == 2
    assert "error: torchvision was compiled for another build of PyTorch" in done.stderr
    assert "torch 2.13.0+cpu of the image has no libc10_cuda.so, libtorch_cuda.so" in done.stderr


def test_a_folder_that_no_container_can_see_is_no_conflict_of_packages(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as hidden:
        env = {"LUMICONTAINER_TMPDIR": hidden}
        words = ("extend", "pytorch-deepspeed.sif", "tabulate==0.9.0", "-o", "mine.sqsh")
        done = lumicontainer(*words, cwd=folder, env=env)
    assert done.returncode == 3
    assert "error: the engine started no container of the image" in done.stderr
    assert "name another one with LUMICONTAINER_TMPDIR" in done.stderr


@pytest.fixture
def small(folder: Path) -> Iterator[Path]:
    """Return a folder with an extension of one package."""
    done = extend(folder, "tabulate==0.9.0", "-o", "mine.sqsh")
    assert done.returncode == 0, done.stderr
    yield folder


def test_later_extensions_win_with_a_warning(small: Path) -> None:
    assert extend(small, "tabulate==0.8.10", "-o", "other.sqsh").returncode == 0
    files = ("--with", "mine.sqsh", "--with", "other.sqsh")
    program = "import tabulate; print(tabulate.__version__)"
    done = in_image(small, *files, "pytorch-deepspeed.sif", "--", "python3", "-c", program)
    assert done.stdout == "0.8.10\n", done.stderr
    assert "warning: other.sqsh has tabulate 0.8.10, and mine.sqsh has 0.9.0" in done.stderr


def test_an_extension_of_an_image_that_was_rebuilt_names_the_command(small: Path) -> None:
    link = small / "pytorch-deepspeed.sif"
    original = link.resolve()
    link.unlink()
    shutil.copy(original, link)
    with link.open("r+b") as file:
        file.seek(60)  # In the identity.
        file.write(b"\1\2\3")
    done = in_image(small, "--with", "mine.sqsh", link.name, "--", "true")
    assert done.returncode == 4
    assert "mine.sqsh was made for another image" in done.stderr
    assert "lumicontainer extend pytorch-deepspeed.sif tabulate==0.9.0 -o mine.sqsh" in done.stderr


def test_pip_in_a_container_names_the_verb(folder: Path) -> None:
    words = ("pytorch-deepspeed.sif", "--", "pip", "install", "tabulate")
    done = in_image(folder, *words)
    assert done.returncode != 0
    assert done.stderr.startswith("ERROR: Invalid requirement: 'this image is read-only: ")
    assert "on the host run: lumicontainer extend IMAGE PACKAGE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_killed_run_leaves_the_old_file_and_the_next_run_removes_the_rest(small: Path) -> None:
    before = (small / "mine.sqsh").read_bytes()
    command = [sys.executable, "-m", "lumicontainer", "extend", "pytorch-deepspeed.sif"]
    command += ["tabulate==0.8.10", "-o", "mine.sqsh"]
    with subprocess.Popen(command, cwd=small, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert any("install" in line for line in child.stderr)
        child.send_signal(signal.SIGKILL)
    assert (small / "mine.sqsh").read_bytes() == before
    assert extend(small, "tabulate==0.8.10", "-o", "mine.sqsh").returncode == 0
    assert (small / "mine.sqsh").read_bytes() != before
    assert not list(small.glob(".mine*"))


def test_a_full_disk_is_named_and_nothing_is_left(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=8k,{owned()} none "{disk}"'
    command = [sys.executable, "-m", "lumicontainer", "extend", "pytorch-deepspeed.sif"]
    command += ["tabulate==0.9.0", "-o", f"{disk}/mine.sqsh"]
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
    done = run([*trace, *command], cwd="/")
    assert done.returncode == 0, done.stderr
    done_there = re.compile(rf'(?m)(\w+)\(.*"{re.escape(str(shared))}/([^"]+)"(.*) = \d+$')
    created, named = set(), set()
    for call, name, rest in done_there.findall(log.read_text()):
        if call.startswith("rename"):
            named.add(name)
        elif not call.startswith("open") or "O_CREAT" in rest:
            created.add(name)
    assert named == {path.name for path in shared.iterdir()} == {"mine.sqsh", "pylock.mine.toml"}
    assert len(created) == 2, created


def test_an_image_is_asked_once_for_its_packages(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def asks(output: str) -> bool:
        words = ("pytorch-deepspeed.sif", "tabulate==0.9.0", "-v", "-o", output)
        env = {"LUMICONTAINER_CACHE": str(cache)}
        done = lumicontainer("extend", *words, cwd=folder, env=env)
        assert done.returncode == 0, done.stderr
        return "inside.image.facts" in done.stderr

    assert [asks("one.sqsh"), asks("two.sqsh")] == [True, False]
    (known,) = (cache / "facts").iterdir()
    assert {each.stat().st_mode & 0o077 for each in (cache, known.parent)} == {0}
    known.write_text("damaged")
    assert asks("three.sqsh")


def test_two_different_runs_at_once_leave_one_of_them_whole(folder: Path) -> None:
    command = [sys.executable, "-m", "lumicontainer", "extend", "pytorch-deepspeed.sif", "-q"]
    wanted = ("tabulate==0.9.0", "tabulate==0.8.10")
    both = [subprocess.Popen([*command, each, "-o", "mine.sqsh"], cwd=folder) for each in wanted]
    assert [each.wait() for each in both] == [0, 0]
    names = {path.name for path in folder.iterdir()}
    assert names == {"code", "pytorch-deepspeed.sif", "mine.sqsh", "pylock.mine.toml"}
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
    done = extend(folder, *words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"warning: einops 0\.8\.0 hides \S+ of the image", done.stderr)
    program = "import einops; print(einops.__version__, einops.__file__)"
    words = ("--with", "mine.sqsh", "pytorch-deepspeed.sif", "--", "python3", "-c", program)
    found = in_image(folder, *words).stdout
    assert found == f"0.8.0 /user-software/{SITE}/einops/__init__.py\n"


def test_code_that_hatchling_builds_is_bound_in_place(folder: Path) -> None:
    text = PROJECT.replace("setuptools.build_meta", "hatchling.build")
    (folder / "code/pyproject.toml").write_text(text.replace("setuptools", "hatchling"))
    done = extend(folder, "--editable", "code", "-o", "mine.sqsh")
    assert done.returncode == 0, done.stderr
    (folder / "code/src/mycode/__init__.py").write_text("def main(): print('trains better')\n")
    done = in_image(folder, "--with", "mine.sqsh", "pytorch-deepspeed.sif", "--", "mytrain")
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
        words = ("build", recipe, "--output", tmp_path / f"{content}.sif", "--no-verify")
        done = lumicontainer(*words)
        assert done.returncode == 0, done.stderr
    words = ("tabulate", "-o", "mine.sqsh")
    done = lumicontainer("extend", "first.sif", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = in_image(tmp_path, "--with", "mine.sqsh", "second.sif", "--", "true")
    assert done.returncode == 4
    assert "the files of torch 1.0 differ, and packages are compiled against them" in done.stderr
    assert "hint: make it for this image: lumicontainer extend" in done.stderr
    second = lumicontainer("extend", "second.sif", *words, cwd=tmp_path)
    assert "1 package added" in second.stderr


def test_code_of_a_source_runs_in_the_image_and_sees_no_file_of_the_host(folder: Path) -> None:
    home = os.path.expanduser("~")  # noqa: PTH111
    (folder / "code/setup.py").write_text(
        "import os, sys\nfrom setuptools import setup\n"
        f"assert os.path.exists('/opt/lumicontainer') and not os.path.exists('{home}/.bashrc')\n"
        "print(sys.prefix, file=open('prefix', 'w'))\nsetup()\n"
    )
    done = extend(folder, "--editable", "code", "-o", "mine.sqsh")
    assert done.returncode == 0, done.stderr
    assert (folder / "code/prefix").read_text() == "/opt/venv\n"


def test_a_new_image_has_the_packages_as_a_layer(folder: Path) -> None:
    done = extend(folder, "tabulate==0.9.0", "--into", "new.sif")
    assert done.returncode == 0, done.stderr
    program = "import tabulate, torch; print(tabulate.__file__)"
    words = ("--silent", "exec", "--userns", "new.sif", "python3", "-c", program)
    found = run([ENGINE, *words], cwd=folder).stdout
    assert re.fullmatch(rf"/opt/user-software/\d\d/{SITE}/tabulate/__init__.py\n", found)
    assert lumicontainer("inspect", "--check", "new.sif", cwd=folder).returncode == 0
    assert "tabulate" in lumicontainer("inspect", "--packages", "new.sif", cwd=folder).stdout
    done = in_image(folder, "new.sif", "--", "lumi-verify", "-k", "image/record")
    assert done.returncode == 0, done.stdout + done.stderr
    again = extend(folder, "tabulate==0.9.0", "--into", "new.sif")
    assert "new.sif is up to date" in again.stderr
