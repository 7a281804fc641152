"""The scripts of the layers for ROCm, each run whole on trees in the place of upstream's."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from .sandbox import LAYERS, Sandbox, passed, stand_in

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
PREFIX = {"--prefix=/usr", f"--libdir={LIBRARIES}"}
ARCHITECTURES = ("PYTORCH_ROCM_ARCH", "HCC_AMDGPU_TARGET", "GPU_ARCHS", "GPU_TARGETS")
AMD = {"ROCM_PATH": "/opt/rocm", **dict.fromkeys(ARCHITECTURES, "gfx90a")}


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path, dict(AMD))


def archive(sandbox: Sandbox, file: str, installed: str = "") -> None:
    """Lay a stand-in where a layer's sources lie, as a release for download."""
    name, _, compression = file.partition(".tar.")
    stand_in(sandbox.work / "upstream" / name, packed=True, installed=installed)
    with tarfile.open(sandbox.sources / file, f"w:{compression}") as packed:  # type: ignore[call-overload]
        packed.add(sandbox.work / "upstream" / name, name)


# slingshot

HEADERS = (
    "cassini-headers/include/cassini.h",
    "cassini-headers/share/cassini-headers/csr_defs.json",
    "cxi-driver/include/uapi/misc/cxi.h",
)
TREES = ("xpmem", "libcxi", "libfabric")
SLINGSHOT = {"provider": "source", "version": "12.0.1"}
LIBFABRIC = {
    *PREFIX,
    "LDFLAGS=-Wl,--build-id",
    "--enable-only",
    *(f"--enable-{name}" for name in ("rxm", "rxd", "shm", "tcp", "lnx", "hook_hmem")),
    *("--enable-cxi=/usr", "--enable-xpmem=/usr", "--enable-dmabuf_peer_mem"),
    "--with-rocr=/opt/rocm",
}


@pytest.fixture
def slingshot(sandbox: Sandbox) -> Sandbox:
    for path in HEADERS:
        (sandbox.sources / path).parent.mkdir(parents=True, exist_ok=True)
        (sandbox.sources / path).write_text("stand-in")
    for tree in TREES:
        stand_in(sandbox.sources / tree)
    return sandbox


def test_slingshot_is_built_from_the_bottom_up_for_rocm(slingshot: Sandbox) -> None:
    passed(slingshot.run("slingshot", "install.sh", **SLINGSHOT))
    programs = ("autogen", "configure", "make", "install")
    assert slingshot.calls() == [(tree, program) for tree in TREES for program in programs]
    for tree in TREES:
        assert set(slingshot.arguments(tree, "configure")) >= PREFIX
        assert "-j3" in slingshot.arguments(tree, "make")
    for header in HEADERS:
        assert slingshot.written(f"/usr/{header.partition('/')[2]}").read_text() == "stand-in"
    assert set(slingshot.arguments("libfabric", "configure")) == LIBFABRIC
    libcxi = slingshot.arguments("libcxi", "configure")
    assert {"--with-rocm=/opt/rocm", "--with-udevrulesdir=/usr/lib/udev/rules.d"} <= set(libcxi)
    assert "--without-systemd" in libcxi
    assert "-Wno-unused-but-set-variable" in libcxi[-1]
    assert "--disable-kernel-module" in slingshot.arguments("xpmem", "configure")
    # libfabric's provider cxi looks for libcurl where SUSE keeps it.
    link = slingshot.written("/usr/lib64/libcurl.so.4")
    assert str(link.readlink()) == f"{LIBRARIES}/libcurl.so.4"


def test_a_tree_that_does_not_compile_ends_the_step(slingshot: Sandbox) -> None:
    (slingshot.sources / "libcxi/Makefile").write_text("all:\n\tfalse\n")
    assert slingshot.run("slingshot", "install.sh", **SLINGSHOT).returncode != 0
    assert slingshot.calls()[-1] == ("libcxi", "configure")


def test_the_hosts_libfabric_is_stood_in_for_by_one_without_slingshot(sandbox: Sandbox) -> None:
    archive(sandbox, "libfabric.tar.bz2")
    passed(sandbox.run("slingshot", "install.sh", provider="host", version="12.0.1"))
    arguments = sandbox.arguments("libfabric", "configure")
    assert {"--enable-only", "--enable-tcp", "--enable-shm"} <= set(arguments)
    assert not [argument for argument in arguments if "cxi" in argument]


def test_debians_libfabric_needs_nothing_more(sandbox: Sandbox) -> None:
    passed(sandbox.run("slingshot", "install.sh", provider="debian", version="12.0.1"))
    assert sandbox.calls() == []


# mpich

MPICH = {
    *PREFIX,
    *("--disable-fortran", "--enable-fast=O3", "--enable-threads=multiple"),
    *("--with-device=ch4:ofi", "--with-libfabric=/usr", "--without-ucx"),
    *("--with-hip=/opt/rocm", "--with-hip-sm=gfx90a", "--without-cuda"),
}


@pytest.mark.parametrize("provider", ["source", "host"])
@pytest.mark.parametrize("xpmem", [True, False], ids=["own slingshot", "the host's slingshot"])
def test_mpich_is_built_with_hip_and_with_xpmem_if_present(
    sandbox: Sandbox, provider: str, xpmem: bool
) -> None:
    archive(sandbox, "mpich.tar.gz", installed="$(libdir)/libmpi.so.12")
    if xpmem:
        sandbox.before("/usr/include/xpmem.h")
    passed(sandbox.run("mpich", "install-rocm.sh", provider=provider, version="4.3.2"))
    arguments = set(sandbox.arguments("mpich", "configure"))
    assert arguments == MPICH | ({"--with-xpmem=/usr"} if xpmem else set())
    assert "-j3" in sandbox.arguments("mpich", "make")
    assert sandbox.written(f"{LIBRARIES}/libmpi.so.12").exists()


# rccl

AMDS_OWN = "target_compile_options(rccl PRIVATE -parallel-jobs=12)\n"


@pytest.mark.parametrize("kernels", ["", "AllGather * * * * 4|SendRecv"])
def test_rccl_is_built_for_gfx90a_with_the_kernels_that_are_named(
    sandbox: Sandbox, kernels: str
) -> None:
    tree = sandbox.sources / "rccl"
    tree.mkdir()
    (tree / "CMakeLists.txt").write_text(f"project(rccl)\n{AMDS_OWN}")
    sandbox.tool("cmake", '#!/bin/sh\nexec record rccl "$1" "$@"\n')
    passed(sandbox.run("rccl", "install.sh", provider="source", version="2.21.5", kernels=kernels))
    assert sandbox.calls() == [("rccl", step) for step in ("-S", "--build", "--install")]
    arguments = sandbox.arguments("rccl", "-S")
    assert {"-DGPU_TARGETS=gfx90a", "-DROCM_PATH=/opt/rocm"} <= set(arguments)
    chosen = [each for each in arguments if each.startswith("-DONLY_FUNCS")]
    assert chosen == ([f"-DONLY_FUNCS={kernels}"] if kernels else [])
    assert (tree / "CMakeLists.txt").read_text() == "project(rccl)\n"


def test_debians_rccl_is_taken_as_it_is(sandbox: Sandbox) -> None:
    passed(sandbox.run("rccl", "install.sh", provider="debian", version="2.27.7", kernels=""))
    assert sandbox.calls() == []


# rccl-plugin

# As in aws-ofi-nccl, m4/check_pkg_libfabric.m4 and check_pkg_hwloc.m4.
COMPILES_CXX = r"""
for argument; do
    case "$argument" in
    --with-libfabric=*|--with-hwloc=*) CPPFLAGS="-isystem ${argument#*=}/include $CPPFLAGS" ;;
    esac
done
g++ $CPPFLAGS -fsyntax-only -x c++ - <<<'#include <cstdlib>'
"""
# As aws-ofi-nccl's m4/get_version.sh, which autoreconf asks for the version since 1.19.
ASKS_FOR_ITS_VERSION = """
if test -f .release_version; then
    cp .release_version "$STAND_IN_RECORD.version"
elif ! git rev-parse --short HEAD; then
    echo 'No version found.  Cannot continue.' >&2
    exit 1
fi
"""


def plugin(sandbox: Sandbox, name: str, installed: str) -> None:
    nccl = {"autogen": ASKS_FOR_ITS_VERSION, "configure": COMPILES_CXX}
    upstream = nccl if name == "aws-ofi-nccl" else {}
    stand_in(sandbox.sources / name, installed=f"$(libdir)/{installed}", **upstream)


def install_plugin(sandbox: Sandbox, name: str, version: str) -> subprocess.CompletedProcess[str]:
    values = {"provider": "source", "plugin": name, "version": version}
    return sandbox.run("rccl-plugin", "install.sh", **values)


@pytest.mark.parametrize(("release", "reported"), [("", "1.20.0\n"), ("1.20.0-its-own\n",) * 2])
def test_aws_ofi_nccl_is_built_with_rocm_and_knows_its_version_without_git(
    sandbox: Sandbox, release: str, reported: str
) -> None:
    plugin(sandbox, "aws-ofi-nccl", "librccl-net-ofi.so")
    if release:
        (sandbox.sources / "aws-ofi-nccl/.release_version").write_text(release)
    passed(install_plugin(sandbox, "aws-ofi-nccl", "1.20.0"))
    arguments = {*PREFIX, "--with-rocm=/opt/rocm", "--enable-trace", "--disable-tests"}
    assert set(sandbox.arguments("aws-ofi-nccl", "configure")) == arguments
    link = sandbox.written(f"{LIBRARIES}/librccl-net.so")
    assert str(link.readlink()) == "librccl-net-ofi.so"
    assert Path(f"{sandbox.record}.version").read_text() == reported


def test_a_plugin_that_has_rccls_name_already_keeps_it(sandbox: Sandbox) -> None:
    plugin(sandbox, "aws-ofi-nccl", "librccl-net.so")
    passed(install_plugin(sandbox, "aws-ofi-nccl", "1.20.0"))
    assert sandbox.written(f"{LIBRARIES}/librccl-net.so").read_text() == "stand-in\n"


def test_aws_ofi_rccl_gets_container_of_from_a_header(sandbox: Sandbox) -> None:
    plugin(sandbox, "aws-ofi-rccl", "librccl-net.so")
    passed(install_plugin(sandbox, "aws-ofi-rccl", "1.4.0-1"))
    arguments = set(sandbox.arguments("aws-ofi-rccl", "configure"))
    (flags,) = [argument for argument in arguments if argument.startswith("CPPFLAGS=")]
    assert arguments - {flags} == {
        *PREFIX,
        *("--with-libfabric=/usr", "--with-hip=/opt/rocm", "--with-rccl=/opt/rocm"),
        *("--enable-trace", "--disable-tests"),
    }
    header = flags.removeprefix("CPPFLAGS=-include ")
    assert Path(header).read_bytes() == (LAYERS / "rccl-plugin/container_of.h").read_bytes()


@pytest.mark.parametrize(
    "fabric",
    [
        pytest.param("", id="libfabric 2"),
        pytest.param(
            "#define container_of(p, t, m) ((t *)((char *)p - offsetof(t, m)))", id="libfabric 1"
        ),
    ],
)
def test_the_header_serves_either_libfabric(tmp_path: Path, fabric: str) -> None:
    guarded = f"#ifndef container_of\n{fabric}\n#endif\n"
    (tmp_path / "fabric.h").write_text(f"#include <stddef.h>\n{guarded}")
    (tmp_path / "plugin.c").write_text(
        '#include "fabric.h"\nstruct box { int first; int second; };\n'
        "int main(void) {\n    struct box box = {1, 2};\n"
        "    return container_of(&box.second, struct box, second) != &box;\n}\n"
    )
    header = LAYERS / "rccl-plugin/container_of.h"
    program = tmp_path / "plugin"
    command = ["gcc", "-Wall", "-Werror", "-include", header, tmp_path / "plugin.c", "-o", program]
    subprocess.run(command, check=True)
    assert subprocess.run([program], check=False).returncode == 0


def test_a_version_of_the_other_plugin_is_refused(sandbox: Sandbox) -> None:
    plugin(sandbox, "aws-ofi-nccl", "librccl-net.so")
    done = install_plugin(sandbox, "aws-ofi-rccl", "1.19.0")
    assert done.returncode == 1
    assert "error: aws-ofi-rccl has no version 1.19.0\n" in done.stderr
    assert sandbox.calls() == []


# rccl-tests, osu


def test_rccl_tests_are_built_for_gfx90a_over_mpi(sandbox: Sandbox) -> None:
    stand_in(sandbox.sources / "rccl-tests", made="build/all_reduce_perf build/sendrecv_perf")
    sandbox.tool("mpicc")
    passed(sandbox.run("rccl-tests", "install.sh", provider="source", version="33cc4df"))
    assert {
        *("-j3", "MPI=1", f"MPI_HOME={sandbox.work}/tools"),
        *("GPU_TARGETS=gfx90a", "NCCL_HOME=/opt/rocm", "HIP_HOME=/opt/rocm"),
    } <= set(sandbox.arguments("rccl-tests", "make"))
    for name in ("all_reduce_perf", "sendrecv_perf"):
        assert sandbox.written(f"/usr/libexec/rccl-tests/{name}").stat().st_mode & 0o111


# As in the Makefiles of the commit ae3e635, one object alone is said to need the header.
RCCL_TESTS = """\
build: $(BUILDDIR)/all_reduce_perf
$(BUILDDIR)/all_reduce_perf: $(BUILDDIR)/common.o $(BUILDDIR)/verifiable/verifiable.o
\ttouch $@
$(BUILDDIR)/common.o:
\tcp $(BUILDDIR)/hipify/verifiable.h $@
$(BUILDDIR)/verifiable/verifiable.o: $(BUILDDIR)/hipify/verifiable.h
\tmkdir --parents $(@D) && touch $@
$(BUILDDIR)/hipify/verifiable.h:
\tmkdir --parents $(@D) && touch $@
"""


def test_rccl_tests_have_their_headers_before_the_first_object(sandbox: Sandbox) -> None:
    tree = sandbox.sources / "rccl-tests"
    (tree / "src").mkdir(parents=True)
    (tree / "Makefile").write_text("all:\n\t$(MAKE) -C src build BUILDDIR=$(CURDIR)/build\n")
    (tree / "src/Makefile").write_text(RCCL_TESTS)
    sandbox.tool("mpicc")
    sandbox.before("/opt/rocm/include/rccl/rccl.h")
    passed(sandbox.run("rccl-tests", "install.sh", version="ae3e635", jobs="1"))
    assert sandbox.written("/usr/libexec/rccl-tests/all_reduce_perf").exists()


def test_osu_is_built_with_rocm_by_mpichs_compilers(sandbox: Sandbox) -> None:
    archive(sandbox, "osu.tar.gz")
    passed(sandbox.run("osu", "install.sh", provider="source", version="7.5.1"))
    compilers = {"CC=mpicc", "CXX=mpicxx"}
    rocm = {"--prefix=/usr", "--enable-rocm", "--with-rocm=/opt/rocm"}
    assert set(sandbox.arguments("osu", "configure")) == rocm | compilers
    assert "-j3" in sandbox.arguments("osu", "make")
