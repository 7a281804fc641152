"""PyTorch's libraries: the script puts the image's in place, and the check knows when it did not.

The libraries are real ones, linked as PyTorch's wheel for ROCm links its own: needed by names
without a number, while they call themselves by names with one. The loader of this machine decides.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .scripts import LAYERS, Place, Ran, make_wheel

CHECK = LAYERS / "pytorch" / "checks" / "rocm" / "libraries.py"
NUMBERS = {"librccl.so": "1", "libamdhip64.so": "6", "libhsa-runtime64.so": "1"}
NEEDS = {"libhsa-runtime64.so": [], "libamdhip64.so": ["libhsa-runtime64.so"]}
NEEDS["librccl.so"] = ["libamdhip64.so", "libhsa-runtime64.so"]
TORCH = (
    "import ctypes, pathlib\n"
    "ctypes.CDLL(pathlib.Path(__file__).parent / 'lib' / 'libtorch_hip.so')\n"
)
MPI = "import ctypes\nctypes.CDLL('/opt/mpich/lib/libmpi.so.12')\n"
RC = "from types import SimpleNamespace\nrc = SimpleNamespace(initialize=True)\n"


def library(path: Path, *, soname: str = "", needs: list[Path] | None = None) -> None:
    """Make a shared library that needs others by the names that these call themselves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("int nothing;\n")
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname or path.name}", "-o", path, source]
    command += ["-Wl,--no-as-needed", *(needs or ()), "-Wl,--disable-new-dtags,-rpath,$ORIGIN"]
    subprocess.run(command, check=True)
    source.unlink()


def rocm(folder: Path) -> None:
    """Make the image's libraries, each with its number and a link without."""
    for name, needs in NEEDS.items():
        number = f"{name}.{NUMBERS[name]}"
        library(folder / number, needs=[folder / need for need in needs])
        (folder / name).symlink_to(number)


def torch_s_own(folder: Path, scratch: Path) -> None:
    """Make the libraries that the wheel provides: called with a number, needed without one."""
    for name in NEEDS:
        library(scratch / name)
    for name, needs in NEEDS.items():
        called = f"{name}.{NUMBERS[name]}"
        library(folder / name, soname=called, needs=[scratch / need for need in needs])
    library(folder / "libtorch_hip.so", needs=[scratch / name for name in NEEDS])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return where the script runs: ROCm and MPI below /opt, and the wheels of torch."""
    tmp_path = tmp_path_factory.mktemp("place")
    rocm(tmp_path / "opt/rocm/lib")
    hip = tmp_path / "opt/rocm/lib/libamdhip64.so.6"
    library(tmp_path / "opt/mpich/lib/libmpi.so.12", needs=[hip])
    amdsmi = tmp_path / "opt/rocm/share/amd_smi/amdsmi"
    amdsmi.mkdir(parents=True)
    (amdsmi / "__init__.py").touch()
    torch_s_own(tmp_path / "own", tmp_path / "scratch")
    (tmp_path / "sources").mkdir()
    files: dict[str, Path | str] = {"torch/__init__.py": TORCH}
    files |= {f"torch/lib/{path.name}": path for path in (tmp_path / "own").glob("*.so")}
    tag = "py3-none-linux_x86_64.whl"
    make_wheel(tmp_path / "sources", f"torch-2.9.1+rocm6.4-{tag}", files)
    make_wheel(tmp_path / "sources", f"pytorch_triton_rocm-3.5.1-{tag}", {"triton.py": ""})
    make_wheel(
        tmp_path / "sources",
        f"mpi4py-4.1.2-{tag}",
        {"mpi4py/__init__.py": RC, "mpi4py/MPI.py": MPI},
    )
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    return Place(tmp_path / "environment/bin/python", tmp_path, tmp_path)


def install(place: Place) -> Ran:
    return place.run("pytorch", "install-rocm.sh", version="2.9.1+rocm6.4")


def check(place: Place) -> Ran:
    """Run the check as in an image where ldconfig knows the libraries of ROCm."""
    stage = place.folder / "check.sh"
    stage.write_text(f"exec python {CHECK}\n")
    return place.run_file(stage, LD_LIBRARY_PATH="/opt/rocm/lib")


def site(place: Place) -> Path:
    (found,) = place.python.parents[1].glob("lib/python3.*/site-packages")
    return found


def test_a_rocm_without_one_of_them_stops_the_build(place: Place) -> None:
    libraries = place.opt / "rocm/lib"
    for missing in NUMBERS:
        paths = list(libraries.glob(f"{missing}*"))
        for path in paths:
            path.rename(path.with_name(f"away-{path.name}"))
        ran = install(place)
        for path in paths:
            path.with_name(f"away-{path.name}").rename(path)
        assert ran.code == 1
        assert f"would not use the image's {missing.removesuffix('.so')}" in ran.output
        assert "put the layer 'rocm' before 'pytorch'" in ran.output


@pytest.fixture
def installed(place: Place) -> Ran:
    """Install the wheels into an environment without them."""
    for left in site(place).glob("*torch*"):
        shutil.rmtree(left)
    ran = install(place)
    assert ran.code == 0, ran.output
    return ran


def take_own(place: Place, *names: str) -> None:
    """Put torch's own libraries in the place of the links to the image's."""
    for name in names:
        (site(place) / "torch/lib" / name).unlink()
        shutil.copy(place.folder / "own" / name, site(place) / "torch/lib" / name)


def test_the_wheels_are_installed_by_name_with_links_to_the_image_s_libraries(
    place: Place, installed: Ran
) -> None:
    assert "torch-2.9.1+rocm6.4" in installed.output
    assert "pytorch_triton_rocm-3.5.1" in installed.output
    assert not list(site(place).glob("*/direct_url.json"))
    links = {name: str((site(place) / "torch/lib" / name).readlink()) for name in NUMBERS}
    assert links == {name: f"/opt/rocm/lib/{name}" for name in NUMBERS}


@pytest.mark.parametrize(
    ("own", "code", "said"),
    [
        ((), 0, "librccl.so: /opt/rocm/lib/librccl.so.1"),
        (tuple(NUMBERS), 1, "librccl.so is torch's own, not the image's"),
        (("libamdhip64.so", "libhsa-runtime64.so"), 1, "libamdhip64.so is loaded 2 times"),
    ],
    ids=["the image's", "torch's own", "torch's own hip beside that of mpi"],
)
def test_the_check_says_whose_libraries_torch_loads_beside_mpi(
    place: Place, installed: Ran, own: tuple[str, ...], code: int, said: str
) -> None:
    take_own(place, *own)
    ran = check(place)
    assert (ran.code, said in ran.output) == (code, True), ran.output


def test_pytorch_finds_amdsmi_where_rocm_holds_it(place: Place, installed: Ran) -> None:
    assert "amdsmi: /opt/rocm/share/amd_smi/amdsmi/__init__.py" in check(place).output
    (site(place) / "amd_smi.pth").unlink()
    ran = check(place)
    assert (ran.code, "amdsmi cannot be imported" in ran.output) == (1, True), ran.output
