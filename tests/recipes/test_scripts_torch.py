"""The scripts of what uses PyTorch on ROCm run here, with stand-ins for upstream's files.

Horovod and DeepSpeed are the real ones. PyTorch, ROCm, FlashAttention, Apex and Megatron are
stand-ins that write down how they are asked to build.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..faults.real import kept
from .scripts import HERE, LAYERS, Place, Ran, make_wheel

NewPlace = Callable[[str], Place]

# The versions that the layer 'python' and the layers' build.txt hold.
TOOLS = ("pip==26.1.2", "setuptools==80.10.2", "packaging==26.3", "wheel==0.48.0", "psutil==7.2.2")
NEEDED = (*TOOLS, "ninja==1.13.2", "cloudpickle==3.1.2", "pyyaml==6.0.3", "cffi==2.1.1")
REAL = ("cmake==3.31.10", "mpich==4.3.2", "numpy==2.4.6")
HASHES = {
    "horovod==0.28.1": "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0",
    "deepspeed==0.18.2": "892c3213cfefe6df8692d699eae3ca37714cac87afe7f72d4b89acd1df3af1c0",
    "deepspeed==0.18.9": "ee4818dcf342794f74f429a0aeebef90291ec808fa82609c5140c23e665c4011",
    "deepspeed==0.19.2": "7e854b6ebe3d2bfa239f82958372927631c74e5324c7f08f17ce7ff5f6b06969",
}
DEEPSPEED = ("0.18.2", "0.18.9", "0.19.2")
ON_BY_AMD = {
    *("FUSED_ADAM", "FUSED_LAMB", "FUSED_LION", "CPU_ADAM", "CPU_LION"),
    "STOCHASTIC_TRANSFORMER",
}


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", *arguments, "--quiet"], check=True)


def download(folder: Path) -> None:
    words = ("download", "--dest", str(folder))
    pip(Path(sys.executable), *words, *NEEDED)
    for source in HASHES:
        pip(Path(sys.executable), *words, "--no-deps", "--no-binary", ":all:", source)


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the real source packages, and the wheels that the builds ask for."""
    names = hashlib.sha256(" ".join((*NEEDED, *HASHES)).encode()).hexdigest()[:12]
    folder = tmp_path_factory.mktemp("files") / "wheelhouse"
    shutil.copytree(kept(f"wheelhouse-{names}", download), folder)
    cmake = {"cmake/data/bin/cmake": HERE / "stand_in_cmake/cmake"}
    make_wheel(folder, "cmake-3.31.10-py3-none-any.whl", cmake)
    return folder


@pytest.fixture(scope="session")
def new_place(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> NewPlace:
    """Return what makes a place to run scripts, on stand-ins for PyTorch and for ROCm.

    All have one virtual environment, with what the layers below install.
    """
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    pip(python, "install", *NEEDED, *REAL)

    def make(name: str) -> Place:
        place = Place(python, wheelhouse, tmp_path_factory.mktemp(name))
        shutil.copytree(HERE / "stand_in_rocm", place.opt / "rocm", symlinks=True)
        return place

    shutil.copytree(HERE / "stand_in_torch" / "torch", make("first").site / "torch")
    return make


@pytest.fixture
def place(new_place: NewPlace) -> Place:
    return new_place("place")


def recorded(ran: Ran, name: str) -> Any:
    assert ran.code == 0, ran.output
    return json.loads((ran.record / name).read_text())


def pinned(requirement: str) -> str:
    return f"{requirement} --hash=sha256:{HASHES[requirement]}\n"


def unpacked(wheelhouse: Path, name: str, folder: Path) -> Path:
    archive = wheelhouse / f"{name}.tar.gz"
    # The tarfile of Debian 12's Python, 3.11.2, has no filters, and newer ones ask for one.
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
    return folder / name


# FlashAttention


@pytest.fixture
def flash_attention(place: Place) -> Path:
    source = place.sources / "flash-attention"
    shutil.copytree(HERE / "stand_in_flash_attention", source)
    generate = source / "csrc/composable_kernel/example/ck_tile/01_fmha/generate.py"
    generate.parent.mkdir(parents=True)
    generate.touch()
    return source


def compile_flash_attention(place: Place, **values: str) -> Ran:
    layer = (LAYERS / "flash-attention/layer.yaml").read_text()
    (heads,) = re.findall(r'(?m)^    default: "([\d,]+)"', layer)
    variables = {"version": "465cb97", "OPT_DIM": heads, **values}
    return place.run("flash-attention", "compile.sh", **variables)


@pytest.mark.usefixtures("flash_attention")
def test_flash_attention_is_compiled_for_gfx90a_without_a_gpu(place: Place) -> None:
    seen = recorded(compile_flash_attention(place), "flash-attention.json")
    assert seen["GPU_ARCHS"] == "gfx90a"
    assert seen["BUILD_TARGET"] == "rocm"
    assert seen["FLASH_ATTENTION_FORCE_BUILD"] == "TRUE"
    assert seen["MAX_JOBS"] == "3"
    assert "FLASH_ATTENTION_TRITON_AMD_ENABLE" not in seen
    ran = place.run("flash-attention", "install.sh")
    assert "Successfully installed flash-attn-2.8.0.post2" in ran.output
    # It is installed by name.
    (info,) = place.site.glob("flash_attn-*.dist-info")
    assert not (info / "direct_url.json").exists()


def test_the_triton_backend_needs_no_composable_kernel(place: Place, flash_attention: Path) -> None:
    shutil.rmtree(flash_attention / "csrc")
    triton = {"FLASH_ATTENTION_TRITON_AMD_ENABLE": "TRUE"}
    seen = recorded(compile_flash_attention(place, **triton), "flash-attention.json")
    assert seen["FLASH_ATTENTION_TRITON_AMD_ENABLE"] == "TRUE"


def test_a_release_of_flash_attention_is_compiled_from_its_source_distribution(
    place: Place, flash_attention: Path, wheelhouse: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "flash_attn-2.8.3"
    flash_attention.rename(tree)
    setup = tree / "setup.py"
    setup.write_text(setup.read_text().replace("2.8.0.post2", "2.8.3"))
    archive = wheelhouse / f"{tree.name}.tar.gz"
    subprocess.run(["tar", "-C", tmp_path, "-czf", archive, tree.name], check=True)
    line = f"flash-attn==2.8.3 --hash=sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}\n"
    ran = compile_flash_attention(place, requirements=line, version="2.8.3")
    assert "FLASH_ATTENTION_SKIP_CUDA_BUILD" not in recorded(ran, "flash-attention.json")
    assert [wheel.name for wheel in ran.wheels.iterdir()] == ["flash_attn-2.8.3-py3-none-any.whl"]


def test_flash_attention_is_compiled_for_the_head_dimensions_that_are_chosen(
    place: Place, flash_attention: Path
) -> None:
    ran = compile_flash_attention(place, OPT_DIM="64,128")
    assert ran.code == 1
    assert "465cb97 cannot be compiled for the head dimensions 64,128 only" in ran.output
    assert not list(ran.wheels.iterdir())
    with (flash_attention / "setup.py").open("a") as setup:
        setup.write('os.environ["OPT_DIM"]\n')
    ran = compile_flash_attention(place, OPT_DIM="64,128")
    assert recorded(ran, "flash-attention.json")["OPT_DIM"] == "64,128"


# Apex


def compile_apex(place: Place, version: str) -> Ran:
    shutil.copytree(HERE / "stand_in_apex", place.sources / "apex")
    (place.sources / "apex/version.txt").write_text(version)
    return place.run("apex", "compile.sh")


@pytest.mark.parametrize(
    ("version", "kernels"),
    [("1.9.0", {"apex_C", "amp_C"}), ("1.10.0", {"apex.apex_C", "apex.amp_C"})],
)
def test_apex_is_compiled_with_its_kernels_for_gfx90a(
    place: Place, version: str, kernels: set[str]
) -> None:
    ran = compile_apex(place, version)
    for name in kernels:
        seen = recorded(ran, f"{name}.json")
        assert seen["environment"]["PYTORCH_ROCM_ARCH"] == "gfx90a"
        assert seen["environment"]["MAX_JOBS"] == "3"
        assert seen["flags"] in ([], ["-march=znver3"])  # LUMI's processor, not the builder's.
    (wheel,) = ran.wheels.glob(f"apex-{version}-*.whl")
    with zipfile.ZipFile(wheel) as files:
        compiled = [name.split(".")[0] for name in files.namelist() if name.endswith(".so")]
    assert {name.replace("/", ".") for name in compiled} == kernels


def test_apex_accepts_the_packages_that_the_layers_install(place: Place) -> None:
    compile_apex(place, "1.10.0")
    ran = place.run("apex", "install.sh")
    assert "Successfully installed apex-1.10.0" in ran.output
    command = [place.python, "-m", "pip", "check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# DeepSpeed


def compile_deepspeed(place: Place, version: str = "0.18.2", **values: str) -> Ran:
    flags = {f"DS_BUILD_{name}": "1" for name in ON_BY_AMD}
    variables = {"DS_ACCELERATOR": "cuda", "march": "znver3", "version": version, **flags, **values}
    line = pinned(f"deepspeed=={version}")
    return place.run("deepspeed", "compile-rocm.sh", requirements=line, **variables)


@pytest.fixture(scope="session", params=DEEPSPEED)
def deepspeed(request: pytest.FixtureRequest, new_place: NewPlace) -> Ran:
    """Compile DeepSpeed as the recipe does, once for each version."""
    return compile_deepspeed(new_place("deepspeed"), request.param, STAND_IN_WAVE="64")


def test_deepspeed_compiles_what_amd_compiles(deepspeed: Ran) -> None:
    assert deepspeed.code == 0, deepspeed.output
    (path,) = deepspeed.wheels.iterdir()
    with zipfile.ZipFile(path) as wheel:
        built = wheel.read("deepspeed/git_version_info_installed.py").decode()
    installed = set(re.findall(r"'(\w+)': 1\b", built))
    assert installed == {name.lower() for name in ON_BY_AMD}
    assert "accelerator_name='cuda'" in built


def test_deepspeed_s_kernels_are_for_waves_of_64_on_gfx90a(deepspeed: Ran) -> None:
    seen = recorded(deepspeed, "deepspeed.ops.lamb.fused_lamb_op.json")
    assert "-DROCM_WAVEFRONT_SIZE=64" in seen["flags"]["cxx"]
    assert "-DROCM_WAVEFRONT_SIZE=64" in seen["flags"]["nvcc"]
    assert seen["environment"]["PYTORCH_ROCM_ARCH"] == "gfx90a"


def test_deepspeed_s_cpu_ops_are_for_the_processor_of_lumi_g(deepspeed: Ran) -> None:
    seen = recorded(deepspeed, "deepspeed.ops.adam.cpu_adam_op.json")
    assert "-march=znver3" in seen["flags"]["cxx"]
    assert "-D__AVX256__" in seen["flags"]["cxx"]
    assert "-march=native" not in seen["flags"]["cxx"]


@pytest.mark.parametrize("wave", ["", "32"], ids=["no GPU is named", "another GPU is named"])
def test_deepspeed_is_not_compiled_for_another_wave_size(place: Place, wave: str) -> None:
    ran = compile_deepspeed(place, STAND_IN_WAVE=wave)
    assert ran.code == 1
    assert "DeepSpeed would be compiled for a wave size of 32, and gfx90a has 64" in ran.output
    assert not list(ran.wheels.iterdir())


# Horovod


@pytest.fixture(scope="session")
def horovod(new_place: NewPlace) -> Ran:
    """Configure Horovod once, with a stand-in for torch's libraries."""
    place = new_place("horovod")
    (place.site / "torch/lib").mkdir()
    for name in ("c10", "torch", "torch_cpu", "torch_python", "amdhip64", "c10_hip"):
        (place.site / "torch/lib" / f"lib{name}.so").touch()
    cmake = str(place.python.parent / "cmake")
    values = {"version": "0.28.1", "STAND_IN_CMAKE": cmake}
    ran = place.run("horovod", "compile-rocm.sh", requirements=pinned("horovod==0.28.1"), **values)
    assert ran.code == 0, ran.output
    return ran


def compiled(ran: Ran, file: str) -> str:
    """Return the command that compiles one of Horovod's files."""
    commands = recorded(ran, "compile_commands.json")
    (command,) = [each["command"] for each in commands if each["file"].endswith(file)]
    return str(command)


def test_horovod_is_configured_for_rocm_with_rccl_and_mpi(horovod: Ran) -> None:
    command = compiled(horovod, "common/ops/nccl_operations.cc")
    for name in ("ROCM", "GPU", "NCCL", "MPI"):
        assert f"-DHAVE_{name}=1" in command
    for name in ("GLOO", "CUDA"):
        assert f"HAVE_{name}" not in command
    assert "-DHOROVOD_CPU_OPERATIONS_DEFAULT=M" in command
    # 78 is the letter N: each operation on GPUs goes over RCCL.
    for operation in ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER"):
        assert f"-DHOROVOD_GPU_{operation}=78" in command


def test_horovod_is_compiled_for_hip_on_amd_in_cxx17(horovod: Ran) -> None:
    command = compiled(horovod, "common/ops/hip_operations.cc")
    for word in ("-D__HIP_PLATFORM_AMD__=1", "-std=c++17", "/opt/rocm/include"):
        assert word in command
    for word in ("__HIP_PLATFORM_HCC__", " -g "):
        assert word not in command


def test_horovod_compiles_the_files_that_pytorch_translates(horovod: Ran) -> None:
    commands = recorded(horovod, "compile_commands.json")
    files = {Path(each["file"]).name for each in commands if "/horovod/torch/" in each["file"]}
    translated = {f"{name}_hip.cc" for name in ("adapter_v2", "mpi_ops_v2", "ready_event")}
    assert files == {*translated, "hip_util.cc", "handle_manager.cc"}


def test_horovod_s_kernels_find_hip_s_macro_and_compiler(horovod: Ran) -> None:
    lines = (horovod.record / "hip_add_library.txt").read_text().splitlines()
    libraries = ["horovod_cuda_kernels", "compatible_horovod_cuda_kernels"]
    assert [line.split()[0] for line in lines] == libraries
    for line in lines:
        for word in ("STATIC hip_kernels.cu", "HIP_CLANG_PATH=/opt/rocm/llvm/bin", "-fPIC"):
            assert word in line


def test_horovod_s_build_knows_gfx90a_and_where_rccl_s_header_lies(horovod: Ran) -> None:
    seen = (horovod.record / "environment.txt").read_text().splitlines()
    assert {
        "HCC_AMDGPU_TARGET=gfx90a",
        "CPATH=/opt/rocm/include/rccl",
        "HOROVOD_ROCM_HOME=/opt/rocm",
        "HOROVOD_GPU=ROCM",
        "HOROVOD_GPU_OPERATIONS=NCCL",
        "MAKEFLAGS=-j3",
    } <= set(seen)


# Megatron


@pytest.fixture
def megatron(place: Place) -> Iterator[Place]:
    shutil.copytree(HERE / "stand_in_megatron", place.sources / "megatron-deepspeed")
    yield place
    for path in place.site.glob("megatron*"):
        path.unlink()


def test_megatron_is_importable_and_compiled_for_gfx90a(megatron: Place) -> None:
    ran = megatron.run("megatron", "install.sh", fused_kernels="1")
    assert recorded(ran, "kernels.json")["PYTORCH_ROCM_ARCH"] == "gfx90a"
    tree = ran.opt / "megatron-deepspeed"
    assert (tree / "megatron/data" / f"helpers{sysconfig.get_config_var('EXT_SUFFIX')}").exists()
    assert (megatron.site / "megatron-deepspeed.pth").read_text().splitlines() == [
        "/opt/megatron-deepspeed",
        "/opt/megatron-deepspeed/megatron/fused_kernels/build",
    ]


def test_megatron_uses_nothing_that_pytorch_numpy_and_hip_have_dropped(megatron: Place) -> None:
    ran = megatron.run("megatron", "install.sh", fused_kernels="0")
    assert "5 places made to fit" in ran.output
    # Its kernels are left to the job.
    assert not (ran.record / "kernels.json").exists()
    tree = ran.opt / "megatron-deepspeed/megatron"
    assert (tree / "data/old.py").read_text() == (
        "import numpy as np\nimport torch\nfrom torch import inf\n\n"
        "DTYPES = {6: float, 7: np.float64, 8: np.float_}\nSIZE = np.prod((2, 3))\nLARGEST = inf\n"
        'SAVED = torch.load("saved", map_location=torch.device("cpu"), weights_only=False)\n'
    )
    kernel = tree / "fused_kernels/layer_norm_cuda_kernel.cu"
    assert kernel.read_text().startswith("#ifndef USE_ROCM\n")
