"""Ask the pip of an image which packages build the sources in its report (PEP 517).

Usage: python3 ask_for_builds.py REPORT REQUIREMENTS ANSWER

It runs in the image as part of a layer's script. REQUIREMENTS is the file that REPORT answers.
ANSWER gets a report of pip for each source, by the name of its package.

Usage: python3 ask_for_builds.py FOLDER

Print what the backend of the source in FOLDER needs besides, as JSON.
"""

import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit


def main() -> None:
    """Read the arguments."""
    if len(sys.argv) == 2:
        print_backend_needs(sys.argv[1])
        return
    report, requirements, answer = map(Path, sys.argv[1:])
    lines = requirements.read_text().splitlines()
    options = [line for line in lines if line.startswith("--")]
    chosen = json.loads(report.read_text("utf-8"))["install"]
    sources = [each for each in chosen if not is_wheel(each)]
    builds = {each["metadata"]["name"]: ask(each, options) for each in sources}
    answer.write_text(json.dumps(builds))


def is_wheel(package: dict) -> bool:  # type: ignore[type-arg]
    """Return whether nothing is built for a package of a report."""
    return bool(urlsplit(package["download_info"]["url"]).path.endswith(".whl"))


def ask(package: dict, options: list) -> dict:  # type: ignore[type-arg]
    """Return the report of pip on the packages that build a source; each has to have a wheel."""
    about = package["metadata"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        line = f"{about['name']}=={about['version']}{hash_of(package)}"
        run_pip(folder, [*options, line], "download", "--no-deps", "--dest", str(folder / "files"))
        (archive,) = (folder / "files").iterdir()
        source = unpack(archive, folder / "source")
        table = read_settings(source)
        needs = [*options, *table.get("requires", ["setuptools>=40.8.0"])]
        report, packages = folder / "report.json", folder / "packages"
        words = ("install", "--ignore-installed", "--report", str(report))
        run_pip(folder, needs, *words, "--target", str(packages))
        if more := ask_backend(source, packages):
            run_pip(folder, [*needs, *more], *words, "--dry-run")
        answer = json.loads(report.read_text("utf-8"))
    for each in answer["install"]:
        name = each["metadata"]["name"]
        if not is_wheel(each):
            sys.exit(f"{about['name']} is built with {name}, a source")
        if name == "torch" and importlib.util.find_spec(name):
            sys.exit(f"{about['name']} is built with the PyTorch of the layers below")
    return dict(answer)


def hash_of(package: dict) -> str:  # type: ignore[type-arg]
    """Return the option with the sha256 of a package; empty if the index has no sha256."""
    digest = package["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
    return f" --hash=sha256:{digest}" if digest else ""


def run_pip(folder: Path, lines: list, command: str, *words: str) -> None:  # type: ignore[type-arg]
    """Run a command of pip on lines of requirements; exit as it does if it fails."""
    requirements = folder / "wanted.txt"
    requirements.write_text("".join(f"{line}\n" for line in lines))
    start = [sys.executable, "-m", "pip", command, "--no-input", "--requirement", str(requirements)]
    if status := subprocess.run([*start, *words], check=False).returncode:
        sys.exit(status)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive of one folder; return that folder."""
    more = {"filter": "data"} if sys.version_info >= (3, 12) else {}
    shutil.unpack_archive(str(archive), str(folder), **more)  # type: ignore[arg-type]
    (top,) = folder.iterdir()
    return top


def read_settings(source: Path) -> dict:  # type: ignore[type-arg]
    """Return the table build-system of a source's pyproject.toml."""
    file = source / "pyproject.toml"
    if not file.exists():
        return {}
    # Python has it from 3.11 on, and pip before.
    name = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    table = importlib.import_module(name).loads(file.read_text("utf-8"))
    return dict(table.get("build-system", {}))


def ask_backend(source: Path, packages: Path) -> list:  # type: ignore[type-arg]
    """Return what the backend of a source needs besides the ``packages`` that it finds."""
    search = os.pathsep.join([str(packages / "bin"), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PYTHONPATH": str(packages), "PATH": search}
    command = [sys.executable, str(Path(__file__).resolve()), str(source)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return list(json.loads(done.stdout.rpartition(b"\n")[2]))


def print_backend_needs(folder: str) -> None:
    """Call the hook of the backend in a folder; print its answer in the last line."""
    os.chdir(folder)
    system = read_settings(Path())
    sys.argv = ["setup.py"]
    sys.path[:0] = [str(Path(each).resolve()) for each in system.get("backend-path", ())]
    name, _, attribute = system.get("build-backend", "setuptools.build_meta:__legacy__").partition(
        ":"
    )
    backend = importlib.import_module(name)
    for each in filter(None, attribute.split(".")):
        backend = getattr(backend, each)
    hook = getattr(backend, "get_requires_for_build_wheel", list)
    needs = json.dumps(list(hook()))
    sys.stdout.write(f"\n{needs}")


if __name__ == "__main__":
    # Neither files next to this one nor files in the current folder are modules to a backend.
    sys.path.pop(0)
    main()
