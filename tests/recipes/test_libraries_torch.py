"""PyTorch's libraries: the script puts the image's in place, and the check knows when it did not.

The libraries are real ones, linked as PyTorch's wheel for ROCm links its own: needed by names
without a number, while they call themselves by names with one. The loader of this machine decides.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from lumicontainer import inside
from lumicontainer.core.catalog import open_catalog
from lumicontainer.inside.checking import PROOT_TREE

from ..faults.real import published_wheel
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


def library(path: Path, *, soname: str = "", needs: Iterable[Path] = ()) -> Path:
    """Make a shared library that needs others by the names that these call themselves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname or path.name}", "-o", path]
    command += ["-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed", *needs]
    subprocess.run([*command, "-Wl,--disable-new-dtags,-rpath,$ORIGIN"], check=True)
    return path


def rocm(folder: Path) -> None:
    """Make the image's libraries, each with its number and a link without."""
    for name, needs in NEEDS.items():
        number = f"{name}.{NUMBERS[name]}"
        library(folder / number, needs=[folder / need for need in needs])
        (folder / name).symlink_to(number)


def amd_smi(path: Path, wheel: str) -> None:
    """Make a library that has all functions that the wheel of amdsmi binds when it is imported."""
    with zipfile.ZipFile(published_wheel(wheel)) as archive:
        text = archive.read("amdsmi/amdsmi_wrapper.py").decode()
    names = sorted(set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", text)))
    assert len(names) > 100
    code = "".join(f"void {name}(void) {{}}\n" for name in names)
    command = ["gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"]
    subprocess.run(command, input=code, text=True, check=True)


def torch_s_own(folder: Path, scratch: Path) -> None:
    """Make the libraries that the wheel provides: called with a number, needed without one."""
    needed = {name: library(scratch / name) for name in NEEDS}
    for name, needs in NEEDS.items():
        called = f"{name}.{NUMBERS[name]}"
        library(folder / name, soname=called, needs=[needed[need] for need in needs])
    library(folder / "libtorch_hip.so", needs=needed.values())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return where the script runs: ROCm and MPI below /opt, and the wheels of torch."""
    folder = tmp_path_factory.mktemp("place")
    rocm(folder / "opt/rocm/lib")
    hip = folder / "opt/rocm/lib/libamdhip64.so.6"
    library(folder / "opt/mpich/lib/libmpi.so.12", needs=[hip])
    shutil.copy(published_wheel("amdsmi==6.4.4"), folder)
    amd_smi(folder / "opt/rocm/lib/libamd_smi.so.25", "amdsmi==6.4.4")
    (folder / "opt/rocm/lib/libamd_smi.so").symlink_to("libamd_smi.so.25")
    torch_s_own(folder / "own", folder / "scratch")
    own = {f"torch/lib/{path.name}": path for path in (folder / "own").iterdir()}
    wheels: dict[str, dict[str, Path | str]] = {
        "torch-2.9.1+rocm6.4": {"torch/__init__.py": TORCH, **own},
        "pytorch_triton_rocm-3.5.1": {"triton.py": ""},
        "mpi4py-4.1.2": {"mpi4py/__init__.py": RC, "mpi4py/MPI.py": MPI},
    }
    (folder / "sources").mkdir()
    for name, files in wheels.items():
        make_wheel(folder / "sources", f"{name}-py3-none-linux_x86_64.whl", files)
    (folder / "lib").mkdir()
    (folder / "lib/lumi_inside").symlink_to(Path(inside.__file__).parent)  # Its name in images.
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    return Place(folder / "environment/bin/python", folder, folder)


def install(place: Place) -> Ran:
    return place.run("pytorch", "install-rocm.sh", version="2.9.1+rocm6.4")


def check(place: Place, libraries: str = "/opt/rocm/lib", **values: str) -> Ran:
    """Run the check as in an image where ldconfig knows the libraries of ROCm."""
    stage = place.folder / "check.sh"
    stage.write_text(f"exec python {CHECK}\n")
    path = str(place.folder / "lib")
    return place.run_file(stage, LD_LIBRARY_PATH=libraries, PYTHONPATH=path, **values)


@pytest.mark.parametrize("missing", NUMBERS)
def test_a_rocm_without_one_of_them_stops_the_build(place: Place, missing: str) -> None:
    libraries = place.opt / "rocm/lib"
    shutil.copytree(libraries, place.folder / "kept", symlinks=True, dirs_exist_ok=True)
    for path in libraries.glob(f"{missing}*"):
        path.unlink()
    ran = install(place)
    shutil.rmtree(libraries)
    (place.folder / "kept").rename(libraries)
    assert ran.code == 1
    assert f"would not use the image's {missing.removesuffix('.so')}" in ran.output
    assert "put the layer 'rocm' before 'pytorch'" in ran.output


@pytest.fixture
def installed(place: Place) -> Ran:
    """Install the wheels into an environment without them."""
    for left in (*place.site.glob("*torch*"), *place.site.glob("amdsmi*")):
        shutil.rmtree(left)
    ran = install(place)
    assert ran.code == 0, ran.output
    return ran


def test_the_wheels_are_installed_by_name_with_links_to_the_image_s_libraries(
    place: Place, installed: Ran
) -> None:
    for name in ("torch-2.9.1+rocm6.4", "pytorch_triton_rocm-3.5.1"):
        assert name in installed.output
    assert not list(place.site.glob("*/direct_url.json"))
    links = {name: str((place.site / "torch/lib" / name).readlink()) for name in NUMBERS}
    assert links == {name: f"/opt/rocm/lib/{name}" for name in NUMBERS}


@pytest.mark.usefixtures("installed")
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
    place: Place, own: tuple[str, ...], code: int, said: str
) -> None:
    for name in own:
        (place.site / "torch/lib" / name).unlink()
        shutil.copy(place.folder / "own" / name, place.site / "torch/lib" / name)
    ran = check(place)
    assert (ran.code, said in ran.output) == (code, True), ran.output


@pytest.mark.usefixtures("installed")
def test_under_proot_the_image_s_libraries_are_known_by_the_path_in_the_image(place: Place) -> None:
    """The kernel knows the image's files by their path in PRoot's tree."""
    for name in NUMBERS:
        link = place.site / "torch/lib" / name
        link.unlink()
        link.symlink_to(place.opt / "rocm/lib" / name)
    libraries = str(place.opt / "rocm/lib")
    ran = check(place, libraries, **{PROOT_TREE: str(place.folder)})
    assert (ran.code, "librccl.so: /opt/rocm/lib/librccl.so.1" in ran.output) == (0, True), ran
    assert check(place, libraries).code == 1


@pytest.mark.usefixtures("installed")
def test_pytorch_finds_the_amdsmi_of_the_index(place: Place) -> None:
    assert f"amdsmi: {place.site}/amdsmi/__init__.py" in check(place).output
    shutil.rmtree(place.site / "amdsmi")
    ran = check(place)
    assert (ran.code, "amdsmi cannot be imported" in ran.output) == (1, True), ran.output


@pytest.mark.usefixtures("installed")
def test_an_amdsmi_whose_library_is_older_fails_the_check(place: Place) -> None:
    path = place.opt / "rocm/lib/libamd_smi.so.25"
    kept = path.rename(path.with_name("kept"))
    library(path)
    ran = check(place)
    kept.rename(path)
    assert (ran.code, "AttributeError" in ran.output) == (1, True), ran.output


def test_each_version_of_pytorch_names_the_amdsmi_of_its_rocm() -> None:
    versions = open_catalog().layer("pytorch").variants["rocm"].versions
    names = {name.rpartition("+")[2].partition("-cp3")[0] for name in versions}
    assert names == {"rocm6.4", "rocm7.0"}
    for name in names:
        line = (LAYERS / "pytorch/rocm" / f"amdsmi-{name}.txt").read_text()
        assert line.startswith(f"amdsmi=={name.removeprefix('rocm')}.")
        digest = hashlib.sha256(published_wheel(line.split()[0]).read_bytes()).hexdigest()
        assert digest == line.strip().rpartition(":")[2]
