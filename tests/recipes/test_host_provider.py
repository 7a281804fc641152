"""What ``provider: host`` takes from a host that looks like LUMI's."""

from pathlib import Path

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.host.host_libraries import FOLDER, close
from lumicontainer.inside.elf.loader import Tree

from ..unit.compiled import Root

FABRIC = "/opt/cray/libfabric/1.22.0/lib64/libfabric.so.1"
MPI = "/opt/cray/pe/mpich/8.1.29/ofi/gnu/12.3/lib-abi-mpich/libmpi.so.12"
CXI, CURL, SSL = (f"/usr/lib64/{name}" for name in ("libcxi.so.1", "libcurl.so.4", "libssl.so.1.1"))
PMI = "/opt/cray/pe/lib64/libpmi.so.0"


def lumi(folder: Path) -> Root:
    """Make a tree with the libraries that HPE's are known to need, at their places on LUMI."""
    host = Root(folder)
    host.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    host.write("/etc/ld.so.conf.d/cray-pe.conf", "/opt/cray/pe/lib64\n")
    libc = host.library("/lib64/libc.so.6", defines={"GLIBC_2.38": ["strtol38"]})
    ssl = host.library(SSL, defines=["ssl"])
    host.library(CURL, uses=["ssl"], needs=[ssl])
    cxi = host.library(CXI, defines=["cxi"], uses=["strtol38"], needs=[libc], opens=CURL)
    fabric = host.library(FABRIC, defines={"FABRIC_1.7": ["fi"]}, uses=["cxi"], needs=[cxi])
    pmi = host.library(PMI, defines=["pmi"])
    host.library(MPI, defines=["MPI_Init"], uses=["fi", "pmi"], needs=[fabric, pmi])
    return host


def image(folder: Path, glibc: str) -> Root:
    """Make a tree with what an image of these layers has itself."""
    system = "/usr/lib/x86_64-linux-gnu"
    found = Root(folder)
    found.library(f"{system}/libc.so.6", defines={glibc: ["strtol38"]})
    found.library(f"{system}/libfabric.so.1", defines={"FABRIC_1.7": ["fi"]})
    found.library(f"{system}/libmpi.so.12", defines=["MPI_Init"])
    return found


def closure(folder: Path, glibc: str):
    catalog = open_catalog(None)
    options = ["slingshot.provider=host", "mpich.provider=host"]
    platform = catalog.platform("lumi-g")
    found = resolve(catalog.recipe("rocm"), catalog, platform=platform, options=options)
    host, has = lumi(folder / "host"), image(folder / "image", glibc)
    seen = [bind.path for bind in found.binds()]
    return close(found.host_libraries(), Tree(str(host.path)), Tree(str(has.path)).find, seen=seen)


def test_slingshot_and_cray_mpich_come_with_all_they_need(tmp_path: Path) -> None:
    found = closure(tmp_path, "GLIBC_2.38")
    assert found.problems == ()
    named = (FABRIC, CXI, MPI, PMI, SSL)
    assert {str(mount) for mount in found.mounts} == {
        CURL,
        *(f"{path}:{FOLDER}/{path.rpartition('/')[2]}" for path in named),
    }


def test_an_image_with_an_older_c_library_is_refused(tmp_path: Path) -> None:
    (problem,) = closure(tmp_path, "GLIBC_2.35").problems
    assert problem.what == (
        "the image's libc.so.6 has no version GLIBC_2.38; its newest is GLIBC_2.35"
    )
    assert problem.where.startswith(CXI)
