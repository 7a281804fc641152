"""``provider: host`` takes libraries of a host that looks like LUMI's."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.host.host_libraries import FOLDER, Closure, close, located
from lumicontainer.inside.elf.loader import Library, Tree

from ..unit.compiled import Root

FABRIC = "/opt/cray/libfabric/1.22.0/lib64/libfabric.so.1"
MPI, OLDER = (
    f"/opt/cray/pe/mpich/{release}/lib-abi-mpich/libmpi.so.12"
    for release in ("8.1.32/ofi/gnu/11.2", "8.1.9/ofi/gnu/12.3")
)
CXI, CURL, SSL = (f"/usr/lib64/{name}" for name in ("libcxi.so.1", "libcurl.so.4", "libssl.so.1.1"))
PMI = "/opt/cray/pe/lib64/libpmi.so.0"


def lumi(folder: Path) -> Root:
    """Make a tree with the libraries that HPE's are known to need, at their places on LUMI."""
    host = Root(folder)
    host.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    host.write("/etc/ld.so.conf.d/cray-pe.conf", "/opt/cray/pe/lib64\n")
    ssl = host.library(SSL, defines=["ssl"])
    host.library(CURL, uses=["ssl"], needs=[ssl])
    cxi = host.library(CXI, defines=["cxi"], opens=CURL)
    fabric = host.library(FABRIC, defines={"FABRIC_1.7": ["fi"]}, uses=["cxi"], needs=[cxi])
    pmi = host.library(PMI, defines=["pmi"])
    for path in (MPI, OLDER):
        host.library(path, defines=["MPI_Init"], uses=["fi", "pmi"], needs=[fabric, pmi])
    return host


def closure(folder: Path, **env: str) -> Closure:
    options = ["slingshot.provider=host", "mpich.provider=host"]
    resolution = resolve(open_catalog().materials("rocm", "lumi-g"), options)
    host, image = Tree(str(lumi(folder / "host").path)), Root(folder / "image")
    for name, defines in (
        ("libfabric.so.1", {"FABRIC_1.7": ["fi"]}),
        ("libmpi.so.12", ["MPI_Init"]),
    ):
        image.library(f"/usr/lib/x86_64-linux-gnu/{name}", defines=defines)
    own = Tree(str(image.path))
    libraries = [located(each, host, env) for each in resolution.host_libraries()]

    def ask(names: Sequence[str]) -> dict[str, Library]:
        return {name: path for name in names if (path := own.find(name))}

    return close(libraries, host, ask, seen=[bind.path for bind in resolution.binds()])


def test_slingshot_and_cray_mpich_come_with_all_they_need(tmp_path: Path) -> None:
    closed = closure(tmp_path)
    assert closed.problems == ()
    named = {f"{path}:{FOLDER}/{Path(path).name}" for path in (FABRIC, CXI, MPI, PMI, SSL)}
    assert {str(mount) for mount in closed.mounts} == {CURL, *named}


@pytest.mark.parametrize(
    ("folder", "path"), [(OLDER.rpartition("/lib-abi")[0], OLDER), ("/opt/gone", MPI), ("", MPI)]
)
def test_the_loaded_module_decides_which_cray_mpich_comes_else_the_newest(
    tmp_path: Path, folder: str, path: str
) -> None:
    closed = closure(tmp_path, CRAY_MPICH_DIR=folder)
    assert [each.source for each in closed.mounts if "libmpi" in each.source] == [path]
