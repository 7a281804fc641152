"""Put into an image what stands in for layers that only an image for LUMI-G has.

Packages and programs print what the layers' own would print, and do nothing else.
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from lumicontainer.inside.checking import PROOT_TREE

from ..unit.compiled import Root, gcc
from . import bundles, gpu
from .breaking import HOME, SITE, Broken

HERE = Path(__file__).parent
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
MEGATRON = "/opt/megatron-deepspeed"
HIP = "/opt/stand-in-hip"


def recorded(image: Broken, layer: str, **parameters: object) -> Broken:
    path = image.place(f"{HOME}/resolved.json")
    record = json.loads(path.read_text())
    record["layers"][layer]["parameters"].update(parameters)
    path.write_text(json.dumps(record))
    return image


def files(image: Broken, folder: str, content: Mapping[str, str]) -> Broken:
    for name, text in content.items():
        image.write(f"{folder}/{name}", text)
    return image


STAND_IN_APEX = {"apex/__init__.py": "", "apex/optimizers.py": "class FusedAdam:\n    pass\n"}
# A PyModuleDef without Python's headers: five words that begin every object of it, and the name.
STAND_IN_MODULE = """
extern void *PyModule_Create2(void *, int);
static struct {{ long references; void *base[4]; const char *name; void *rest[8]; }}
    module = {{1, {{0}}, "{name}", {{0}}}};
void *PyInit_{name}(void) {{ return PyModule_Create2(&module, 1013); }}
"""


def compiled_module(image: Broken, path: str) -> Broken:
    place = image.place(path)
    source = image.folder / f"{place.stem}.c"
    source.write_text(STAND_IN_MODULE.format(name=place.stem))
    gcc("-shared", "-fPIC", "-nostdlib", "-o", place, source)
    return image


def apex(image: Broken) -> Broken:
    files(image, SITE, STAND_IN_APEX).package("apex", "1.9.0")
    return compiled_module(image, f"{SITE}/amp_C.so")


def apex_that_compiles_in_jobs(image: Broken) -> Broken:
    """Install an Apex 1.10 of which nothing was compiled."""
    return files(image, SITE, {**STAND_IN_APEX, "amp_C.py": ""}).package("apex", "1.10.0")


def apex_1_10(image: Broken) -> Broken:
    return compiled_module(apex_that_compiles_in_jobs(image), f"{SITE}/apex/amp_C.so")


def apex_for_another_torch(image: Broken) -> Broken:
    root = Root(apex_that_compiles_in_jobs(image).folder / "upper")
    root.library(f"{SITE}/apex/amp_C.so", uses=["symbol_of_another_torch"])
    return image


TRITON = "FLASH_ATTENTION_TRITON_AMD_ENABLE"
INTERFACE = "flash_attn/flash_attn_interface.py"
STAND_IN_FLASH_ATTENTION = {
    "flash_attn/__init__.py": "",
    INTERFACE: (
        f"import os\nUSE_TRITON_ROCM = os.environ.get('{TRITON}') == 'TRUE'\n"
        "if not USE_TRITON_ROCM:\n    import flash_attn_2_cuda\n"
    ),
}


def flash_attention(image: Broken, *, kernels: bool = True) -> Broken:
    compiled = {"flash_attn_2_cuda.py": ""} if kernels else {}
    image.package("flash-attn", "2.8.3")
    return files(image, SITE, {**STAND_IN_FLASH_ATTENTION, **compiled})


def triton_unasked(image: Broken) -> Broken:
    return flash_attention(image).write(f"{SITE}/{INTERFACE}", "USE_TRITON_ROCM = True\n")


def with_driver(image: Broken) -> Broken:
    """Start the container with a /dev that has the driver of AMD's GPUs."""
    devices = image.folder / "dev"
    (devices / "shm").mkdir(parents=True)
    for name in ("null", "kfd"):
        (devices / name).touch()
    return image.option("--bind", f"{devices}:/dev")


def on_triton(image: Broken, variable: str = "TRUE") -> Broken:
    flash_attention(recorded(image, "flash-attention", provider="triton"), kernels=False)
    return image.env(TRITON, variable)


STAND_IN_HOROVOD = """
import mmap
import horovod.torch as hvd
hvd.rocm_built, hvd.nccl_built = (lambda: True), (lambda: {nccl})
kept = []
for path in {paths!r}:
    with open(path, "rb") as stream:
        kept.append(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ))
"""
"""Says of the workstation's Horovod that it is built for ROCm, and maps files as an RCCL's."""
RCCL = "/opt/rocm/lib/librccl.so.1"
OWN_RCCL = f"{SITE}/torch/lib/librccl.so"


def horovod(image: Broken, *, mapped: Sequence[str] = (RCCL,), nccl: bool = True) -> Broken:
    image.link("/opt/rocm", "rocm-6.4.4").write("/opt/rocm-6.4.4/lib/librccl.so.1.0", b"\x7fELF")
    image.link("/opt/rocm-6.4.4/lib/librccl.so.1", "librccl.so.1.0").write(OWN_RCCL, b"\x7fELF")
    body = textwrap.indent(STAND_IN_HOROVOD.format(nccl=nccl, paths=mapped), "    ")
    image.write("/opt/stand-in/sitecustomize.py", gpu.BEGINS + body)
    return image.env("PYTHONPATH", "/opt/stand-in")


def horovod_under_proot(image: Broken) -> Broken:
    """Let the kernel know the image's RCCL by its path in the tree of PRoot."""
    tree = "/tree-of-proot"
    horovod(image, mapped=[f"{tree}/opt/rocm-6.4.4/lib/librccl.so.1.0"])
    return image.option("--bind", f"{image.folder / 'upper'}:{tree}").env(PROOT_TREE, tree)


APEX_SOFTMAX = "scaled_upper_triang_masked_softmax_cuda"
"""A kernel that Apex has under the same name."""
STAND_IN_MEGATRON = (
    "megatron/__init__.py",
    "megatron/data/__init__.py",
    "megatron/data/helpers.py",
    f"megatron/fused_kernels/build/{APEX_SOFTMAX}.py",
    "megatron/fused_kernels/build/fused_mix_prec_layer_norm_cuda.py",
)


def megatron(image: Broken, *, without: str = "", pretrain: str = "import megatron\n") -> Broken:
    image.write(f"{SITE}/megatron.pth", f"{MEGATRON}\n{MEGATRON}/megatron/fused_kernels/build\n")
    left = {name: "" for name in STAND_IN_MEGATRON if Path(name).stem != without}
    return files(image, MEGATRON, {"pretrain_gpt.py": f"import torch\n{pretrain}", **left})


def megatron_whose_kernels_the_job_compiles(image: Broken) -> Broken:
    return megatron(recorded(image, "megatron", fused_kernels=False), without=APEX_SOFTMAX)


LINKED = ("libfabric.so.1", "libamdhip64.so.6")


def scratch(image: Broken, libraries: Sequence[str]) -> list[Path]:
    """Compile libraries to link with, outside the image."""
    return [Root(image.folder / "scratch").library(f"/{name}") for name in libraries]


def mpich(
    image: Broken,
    *,
    version: str = "4.3.2",
    hip: str = "--with-hip=/opt/rocm",
    linked: Sequence[str] = LINKED,
) -> Broken:
    """Put a program in the place of mpichversion, and a libmpi that is linked with libraries."""
    said = f"MPICH Version: {version}\n--with-device=ch4:ofi {hip} --with-libfabric=/usr"
    image.write("/opt/venv/bin/mpichversion", f"#!/bin/sh\necho '{said}'\n", 0o755)
    over = Root(image.folder / "upper")
    over.library(f"{LIBRARIES}/libamdhip64.so.6")
    over.library(f"{LIBRARIES}/libmpi.so.12", needs=scratch(image, linked))
    return image


def rccl_tests(
    image: Broken,
    *,
    code: Sequence[str] = ("gfx90a",),
    linked: Sequence[str] = ("librccl.so.1", "libmpi.so.12"),
    libraries: Sequence[str] = ("librccl.so.1", "libmpi.so.12"),
) -> Broken:
    """Make what stands in for all_reduce_perf, with bundles of code for GPUs."""
    for name in libraries:
        Root(image.folder / "upper").library(f"{LIBRARIES}/{name}")
    program = image.place("/usr/local/bin/all_reduce_perf")
    flags = ["-Wl,--no-as-needed", *map(str, scratch(image, linked))]
    bundles.library(program, bundles.bundle(*code), flags=flags)
    program.chmod(0o755)
    return image


def hipcc(image: Broken, *, code: Sequence[str] = ("gfx90a",)) -> Broken:
    """Put what stands in for hipcc into the image; its programs carry code for GPUs."""
    program = (HERE / "stand_in_programs/stand_in_hipcc").read_bytes()
    image.write("/usr/local/bin/hipcc", program, 0o755)
    header = "hip/hip_runtime.h"
    image.write(f"{HIP}/{header}", (HERE / "stand_in_hip" / header).read_text())
    return image.write(f"{HIP}/code", bundles.bundle(*code)) if code else image


def hipcc_with_a_library_that_is_gone(image: Broken) -> Broken:
    Root(image.folder / "upper").library(f"{HIP}/libamdhip64.so.6")
    return hipcc(image)


def slingshot(
    image: Broken,
    *,
    listed: str = "tcp:\\ncxi:",
    libraries: Sequence[str] = ("libcxi.so.1",),
    curl: bool = True,
) -> Broken:
    """Put a program in the place of fi_info, and a libfabric that is linked with libraries."""
    recorded(image, "slingshot", provider="source")
    image.write("/usr/bin/fi_info", f"#!/bin/sh\nprintf '{listed}\\n'\n", 0o755)
    over = Root(image.folder / "upper")
    for name in libraries:
        over.library(f"{LIBRARIES}/{name}")
    over.library(f"{LIBRARIES}/libfabric.so.1", needs=scratch(image, ["libcxi.so.1"]))
    return image.write("/usr/lib64/libcurl.so.4", "") if curl else image
