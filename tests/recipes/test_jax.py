"""JAX's plugin for ROCm has code for gfx90a, and checks know when JAX cannot use it."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from lumicontainer import inside
from lumicontainer.inside.elf.fatbin import codes

from ..faults.real import published_wheel
from .scripts import LAYERS, make_wheel

CHECKS = LAYERS / "jax" / "checks"
PLUGIN = (LAYERS / "jax/rocm/plugin-0.6.0.txt").read_text().splitlines()[1].split()[0]
NAMES = ("jax", "jaxlib", "jax_rocm7_pjrt", "jax_rocm7_plugin")
PJRT = "jax_plugins/xla_rocm7/xla_rocm_plugin.so"
EXTENSION = "jax_rocm7_plugin/_prng.so"


def library(path: Path, code: str = "", options: Sequence[str | Path] = ()) -> Path:
    command = ["gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-", "-x", "none", *options]
    subprocess.run(command, input=code, text=True, check=True)
    return path


def install(folder: Path, files: dict[str, dict[str, Path | str]], **versions: str) -> Path:
    """Unpack a wheel of each package of JAX, with these files and versions."""
    for name in NAMES:
        own = files.get(name, {})
        wheel = f"{name}-{versions.get(name, '0.6.0')}-py3-none-any.whl"
        with zipfile.ZipFile(make_wheel(folder, wheel, own)) as archive:
            archive.extractall(folder)
            (info,) = folder.glob(f"{name}-*.dist-info")
            (info / "RECORD").write_text("".join(f"{each},,\n" for each in own))
    return folder


def run_check(name: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run a check with Python packages of these folders, beside the files that checks share."""
    folder = paths[0] / "checks"
    folder.mkdir()
    shutil.copy(CHECKS / "rocm" / name, folder)
    (folder / "lumi_inside").symlink_to(Path(inside.__file__).parent)  # Its name in images.
    path = os.pathsep.join(map(str, paths))
    return subprocess.run(
        [sys.executable, folder / name],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_plugin_carries_code_for_gfx90a(tmp_path: Path) -> None:
    with zipfile.ZipFile(published_wheel(PLUGIN)) as wheel:
        objects = codes(wheel.extract(EXTENSION, tmp_path))
    assert any(code.runs_on("gfx90a") for code in objects)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, dict[str, Path | str]]:
    """Return the libraries of a plugin that loads."""
    api = library(tmp_path / "api.so", "void GetPjrtApi(void) {}")
    other = library(tmp_path / "other.so")
    return {"jax_rocm7_pjrt": {PJRT: api}, "jax_rocm7_plugin": {EXTENSION: other}}


def test_a_plugin_that_loads_holds(tmp_path: Path, files: dict[str, dict[str, Path | str]]) -> None:
    done = run_check("plugin.py", install(tmp_path, files))
    assert (done.returncode, done.stderr) == (0, "")
    assert "JAX 0.6.0: its plugin and its extensions" in done.stdout


def test_a_plugin_of_another_version_is_named(
    tmp_path: Path, files: dict[str, dict[str, Path | str]]
) -> None:
    done = run_check("plugin.py", install(tmp_path, files, jaxlib="0.7.1"))
    assert done.returncode == 1
    assert "jaxlib 0.7.1, jax-rocm7-pjrt 0.6.0" in done.stdout + done.stderr


def test_a_library_that_the_plugin_lacks_is_named(
    tmp_path: Path, files: dict[str, dict[str, Path | str]]
) -> None:
    profiler = tmp_path / "librocprofiler-sdk.so.1"
    library(profiler, options=[f"-Wl,-soname,{profiler.name}"])
    needs: list[str | Path] = ["-Wl,--no-as-needed", profiler]
    files["jax_rocm7_pjrt"][PJRT] = library(tmp_path / "needs.so", options=needs)
    profiler.unlink()
    done = run_check("plugin.py", install(tmp_path, files))
    assert done.returncode == 1
    assert f"{PJRT} cannot be loaded: {profiler.name}" in done.stdout + done.stderr


def test_a_plugin_that_jax_cannot_start_is_reported(
    tmp_path: Path, files: dict[str, dict[str, Path | str]]
) -> None:
    files["jax_rocm7_pjrt"][PJRT] = library(tmp_path / "empty.so")
    done = run_check("plugin.py", install(tmp_path, files))
    assert done.returncode == 1
    assert "has the function GetPjrtApi" in done.stdout + done.stderr


FAKE = {
    "__init__": (
        "def devices(): pass\ndef grad(f): return f\n"
        "def ShapeDtypeStruct(*_): pass\n"
        "class jit:\n"
        "    def __init__(self, *_, **__): pass\n"
        "    def trace(self, *_): return self\n"
        "    def lower(self, **_): return self\n"
        "    def compile(self): return self\n"
        "    def runtime_executable(self): return self\n"
        "    def serialize(self): return {executable!r}\n"
    ),
    "numpy": "float32 = None\n",
    "sharding": "def NamedSharding(*_): pass\ndef PartitionSpec(): pass\n",
    "experimental/topologies": "def get_topology_desc(*_, **__): pass\ndef make_mesh(*_): pass\n",
}


def elf(machine: int, target: int) -> bytes:
    """Return the beginning of an ELF file for a machine, with the lowest byte of its flags."""
    return b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little") + bytes(28) + bytes([target])


@pytest.mark.parametrize(
    ("executable", "code"),
    [
        (b"text" + elf(224, 0x3F), 0),
        (elf(224, 0x3F) + elf(224, 0x4C), 1),
        (elf(62, 0x3F), 1),
        (b"text", 1),
    ],
    ids=["gfx90a", "gfx942 too", "a processor", "no code"],
)
def test_a_step_that_is_not_compiled_for_gfx90a_is_reported(
    tmp_path: Path, executable: bytes, code: int
) -> None:
    for name, text in FAKE.items():
        path = tmp_path / "jax" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{executable!r}", repr(executable)))
    done = run_check("compiles.py", tmp_path)
    assert done.returncode == code, done.stderr
    assert ("not for gfx90a alone" in done.stdout + done.stderr) == (code == 1)


@pytest.mark.parametrize(("platform", "code"), [("gpu", 0), ("cpu", 1)])
def test_jax_on_the_cpu_fails_on_a_node_with_a_gpu(
    tmp_path: Path, platform: str, code: int
) -> None:
    device = f"SimpleNamespace(platform='{platform}')"
    (tmp_path / "jax.py").write_text(
        f"from types import SimpleNamespace\ndef devices(): return [{device}]\n"
    )
    (tmp_path / "_steps.py").write_text("def train(): print('trained')\n")
    done = run_check("gpu.py", tmp_path)
    assert done.returncode == code, done.stderr
    assert ("trained" in done.stdout) == (code == 0)
    assert ("though there is a GPU" in done.stdout + done.stderr) == (code == 1)
