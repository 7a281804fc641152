"""The scripts of the layers for ROCm, each run whole on trees in the place of upstream's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .sandbox import LAYERS, Sandbox, from_git, packed, stand_in

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ARCHITECTURES = ("PYTORCH_ROCM_ARCH", "HCC_AMDGPU_TARGET", "GPU_ARCHS", "GPU_TARGETS")
AMD = {"ROCM_PATH": "/opt/rocm", **dict.fromkeys(ARCHITECTURES, "gfx90a")}


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path, dict(AMD))


def passed(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def git_tree(sandbox: Sandbox, name: str, **made: object) -> None:
    tree = stand_in(sandbox.work / "upstream", name, **made)  # type: ignore[arg-type]
    from_git(tree, sandbox.sources / name)


def archive(sandbox: Sandbox, name: str, file: str, **made: object) -> None:
    tree = stand_in(sandbox.work / "upstream", name, packed=True, **made)  # type: ignore[arg-type]
    packed(tree, sandbox.sources / file)


# slingshot


@pytest.fixture
def slingshot(sandbox: Sandbox) -> Sandbox:
    headers = ("include/cassini.h", "share/cassini-headers/csr_defs.json")
    git_tree(sandbox, "cassini-headers", files=dict.fromkeys(headers, "stand-in"))
    git_tree(sandbox, "cxi-driver", files={"include/uapi/misc/cxi.h": "stand-in"})
    git_tree(sandbox, "xpmem", installed=["$(prefix)/include/xpmem.h", "$(libdir)/libxpmem.so.0"])
    git_tree(sandbox, "libcxi", installed=["$(libdir)/libcxi.so.1"])
    git_tree(sandbox, "libfabric", installed=["$(libdir)/libfabric.so.1"])
    return sandbox


LIBFABRIC = {
    "--prefix=/usr",
    f"--libdir={LIBRARIES}",
    "LDFLAGS=-Wl,--build-id",
    "--enable-only",
    *(f"--enable-{name}" for name in ("rxm", "rxd", "shm", "tcp", "lnx", "hook_hmem")),
    "--enable-dmabuf_peer_mem",
    "--enable-cxi=/usr",
    "--enable-xpmem=/usr",
    "--with-rocr=/opt/rocm",
}


def test_slingshot_is_built_from_the_bottom_up_for_rocm(slingshot: Sandbox) -> None:
    passed(slingshot.run("slingshot", "install.sh", provider="source", version="12.0.1"))
    steps = [(call.tree, call.program) for call in slingshot.calls()]
    programs = ("autogen", "configure", "make", "install")
    trees = ("xpmem", "libcxi", "libfabric")
    assert steps == [(tree, program) for tree in trees for program in programs]
    for tree in trees:
        arguments = slingshot.call(tree, "configure").arguments
        assert {"--prefix=/usr", f"--libdir={LIBRARIES}"} <= set(arguments)
        assert "-j3" in slingshot.call(tree, "make").arguments
    for header in (
        "include/cassini.h",
        "share/cassini-headers/csr_defs.json",
        "include/uapi/misc/cxi.h",
    ):
        assert slingshot.written(f"/usr/{header}").read_text() == "stand-in"
    assert set(slingshot.call("libfabric", "configure").arguments) == LIBFABRIC
    libcxi = slingshot.call("libcxi", "configure").arguments
    assert {"--with-rocm=/opt/rocm", "--with-udevrulesdir=/usr/lib/udev/rules.d"} <= set(libcxi)
    assert "--without-systemd" in libcxi
    assert "-Wno-unused-but-set-variable" in libcxi[-1]
    assert "--disable-kernel-module" in slingshot.call("xpmem", "configure").arguments
    # libfabric's provider cxi looks for libcurl where SUSE keeps it.
    link = slingshot.written("/usr/lib64/libcurl.so.4")
    assert str(link.readlink()) == f"{LIBRARIES}/libcurl.so.4"


def test_a_tree_that_does_not_compile_ends_the_step(slingshot: Sandbox) -> None:
    (slingshot.sources / "libcxi/Makefile").write_text("all:\n\tfalse\n")
    done = slingshot.run("slingshot", "install.sh", provider="source", version="12.0.1")
    assert done.returncode != 0
    assert not [call for call in slingshot.calls() if call.tree == "libfabric"]


def test_the_hosts_libfabric_is_stood_in_for_by_one_without_slingshot(sandbox: Sandbox) -> None:
    archive(sandbox, "libfabric", "libfabric.tar.bz2", installed=["$(libdir)/libfabric.so.1"])
    passed(sandbox.run("slingshot", "install.sh", provider="host", version="12.0.1"))
    arguments = sandbox.call("libfabric", "configure").arguments
    assert {"--enable-only", "--enable-tcp", "--enable-shm"} <= set(arguments)
    assert not [argument for argument in arguments if "cxi" in argument]
    assert sandbox.written("/opt/cray").is_dir()


def test_debians_libfabric_needs_nothing_more(sandbox: Sandbox) -> None:
    passed(sandbox.run("slingshot", "install.sh", provider="debian", version="12.0.1"))
    assert sandbox.calls() == []


# mpich

MPICH = {
    "--prefix=/usr",
    f"--libdir={LIBRARIES}",
    "--disable-fortran",
    "--enable-fast=O3",
    "--enable-threads=multiple",
    "--with-device=ch4:ofi",
    "--with-hip=/opt/rocm",
    "--with-hip-sm=gfx90a",
    "--with-libfabric=/usr",
    "--without-cuda",
    "--without-ucx",
}


@pytest.mark.parametrize("provider", ["source", "host"])
def test_mpich_is_built_with_hip(sandbox: Sandbox, provider: str) -> None:
    archive(sandbox, "mpich", "mpich.tar.gz", installed=["$(libdir)/libmpi.so.12"])
    sandbox.before("/usr/include/xpmem.h")
    passed(sandbox.run("mpich", "install-rocm.sh", provider=provider, version="4.3.2"))
    arguments = sandbox.call("mpich", "configure").arguments
    assert set(arguments) == MPICH | {"--with-xpmem=/usr"}
    assert "-j3" in sandbox.call("mpich", "make").arguments
    assert sandbox.written(f"{LIBRARIES}/libmpi.so.12").exists()


def test_what_cray_mpich_binds_has_its_mount_points(sandbox: Sandbox) -> None:
    archive(sandbox, "mpich", "mpich.tar.gz")
    passed(sandbox.run("mpich", "install-rocm.sh", provider="host", version="4.3.2"))
    for folder in ("/opt/cray", "/run/cxi"):
        assert sandbox.written(folder).is_dir(), folder


def test_mpich_does_without_xpmem_where_slingshot_is_the_hosts(sandbox: Sandbox) -> None:
    archive(sandbox, "mpich", "mpich.tar.gz")
    passed(sandbox.run("mpich", "install-rocm.sh", provider="source", version="4.3.2"))
    assert set(sandbox.call("mpich", "configure").arguments) == MPICH


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
    git_tree(sandbox, name, installed=[f"$(libdir)/{installed}"], **upstream)


def test_aws_ofi_nccl_is_built_with_rocm(sandbox: Sandbox) -> None:
    plugin(sandbox, "aws-ofi-nccl", "librccl-net-ofi.so")
    values = {"provider": "source", "plugin": "aws-ofi-nccl", "version": "1.19.0"}
    passed(sandbox.run("rccl-plugin", "install.sh", **values))
    assert set(sandbox.call("aws-ofi-nccl", "configure").arguments) == {
        "--prefix=/usr",
        f"--libdir={LIBRARIES}",
        "--with-rocm=/opt/rocm",
        "--enable-trace",
        "--disable-tests",
    }
    link = sandbox.written(f"{LIBRARIES}/librccl-net.so")
    assert str(link.readlink()) == "librccl-net-ofi.so"


@pytest.mark.parametrize(("given", "reported"), [("", "1.20.0\n"), ("1.20.0-its-own\n",) * 2])
def test_aws_ofi_nccl_knows_its_version_without_git(
    sandbox: Sandbox, given: str, reported: str
) -> None:
    plugin(sandbox, "aws-ofi-nccl", "librccl-net-ofi.so")
    if given:
        (sandbox.sources / "aws-ofi-nccl/.release_version").write_text(given)
    values = {"provider": "source", "plugin": "aws-ofi-nccl", "version": "1.20.0"}
    passed(sandbox.run("rccl-plugin", "install.sh", **values))
    assert Path(f"{sandbox.record}.version").read_text() == reported


def test_a_plugin_that_has_rccls_name_already_keeps_it(sandbox: Sandbox) -> None:
    plugin(sandbox, "aws-ofi-nccl", "librccl-net.so")
    values = {"provider": "source", "plugin": "aws-ofi-nccl", "version": "1.20.0"}
    passed(sandbox.run("rccl-plugin", "install.sh", **values))
    assert sandbox.written(f"{LIBRARIES}/librccl-net.so").read_text() == "stand-in\n"


def test_aws_ofi_rccl_gets_container_of_from_a_header(sandbox: Sandbox) -> None:
    plugin(sandbox, "aws-ofi-rccl", "librccl-net.so")
    values = {"provider": "source", "plugin": "aws-ofi-rccl", "version": "1.4.0-1"}
    passed(sandbox.run("rccl-plugin", "install.sh", **values))
    arguments = set(sandbox.call("aws-ofi-rccl", "configure").arguments)
    (flags,) = [argument for argument in arguments if argument.startswith("CPPFLAGS=")]
    assert arguments - {flags} == {
        "--prefix=/usr",
        f"--libdir={LIBRARIES}",
        "--with-libfabric=/usr",
        "--with-hip=/opt/rocm",
        "--with-rccl=/opt/rocm",
        "--enable-trace",
        "--disable-tests",
    }
    header = flags.removeprefix("CPPFLAGS=-include ")
    assert Path(header).read_bytes() == (LAYERS / "rccl-plugin/container_of.h").read_bytes()


@pytest.mark.parametrize(
    "fabric",
    [
        "",
        "#ifndef container_of\n#define container_of(p, t, m) ((t *)((char *)p - offsetof(t, m)))\n"
        "#endif\n",
    ],
    ids=["libfabric 2", "libfabric 1"],
)
def test_the_header_serves_either_libfabric(tmp_path: Path, fabric: str) -> None:
    (tmp_path / "fabric.h").write_text(f"#include <stddef.h>\n{fabric}")
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
    values = {"provider": "source", "plugin": "aws-ofi-rccl", "version": "1.19.0"}
    done = sandbox.run("rccl-plugin", "install.sh", **values)
    assert done.returncode == 1
    assert "error: version 1.19.0 is none of aws-ofi-rccl\n" in done.stderr
    assert sandbox.calls() == []


# rccl-tests, osu


def test_rccl_tests_are_built_for_gfx90a_over_mpi(sandbox: Sandbox) -> None:
    git_tree(sandbox, "rccl-tests", made=["build/all_reduce_perf", "build/sendrecv_perf"])
    sandbox.tool("mpicc")
    passed(sandbox.run("rccl-tests", "install.sh", provider="source", version="33cc4df"))
    assert {
        "-j3",
        "MPI=1",
        f"MPI_HOME={sandbox.work}/tools",
        "GPU_TARGETS=gfx90a",
        "NCCL_HOME=/opt/rocm",
        "HIP_HOME=/opt/rocm",
    } <= set(sandbox.call("rccl-tests", "make").arguments)
    for name in ("all_reduce_perf", "sendrecv_perf"):
        assert sandbox.written(f"/usr/libexec/rccl-tests/{name}").stat().st_mode & 0o111


def test_osu_is_built_with_rocm_by_mpichs_compilers(sandbox: Sandbox) -> None:
    archive(sandbox, "osu", "osu.tar.gz")
    passed(sandbox.run("osu", "install.sh", provider="source", version="7.5.1"))
    assert set(sandbox.call("osu", "configure").arguments) == {
        "--prefix=/usr",
        "--enable-rocm",
        "--with-rocm=/opt/rocm",
        "CC=mpicc",
        "CXX=mpicxx",
    }
    assert "-j3" in sandbox.call("osu", "make").arguments
