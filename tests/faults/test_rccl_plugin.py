"""RCCL's network plugin: a real RCCL, the image's real libfabric, and plugins that do not fit."""

from pathlib import Path

import pytest

from ..unit.compiled import Root
from .breaking import Broken, caught, holds
from .stand_in_layers import LIBRARIES, scratch

CHECK = "rccl-plugin/interface"
KNOWN = "ncclNetPlugin_v6"
"""The symbols that Debian's RCCL needs in a plugin."""


@pytest.fixture
def broken(tmp_path: Path, librccl: Path) -> Broken:
    """Return an image with the checks of one for LUMI-G, and with RCCL."""
    own = Broken(tmp_path / "over").for_lumi().write(f"{LIBRARIES}/librccl.so.1", "")
    return own.option("--bind", f"{librccl}:{LIBRARIES}/librccl.so.1")


def plugin(broken: Broken, *offers: str, needs: str = "libfabric.so.1") -> Broken:
    """Compile a plugin that stands in for aws-ofi-nccl: what it offers, and what it needs."""
    over, needed = Root(broken.folder / "upper"), scratch(broken, [needs])
    over.library(f"{LIBRARIES}/librccl-net.so", defines=list(offers), needs=needed)
    return broken


def test_a_plugin_that_rccl_knows_holds(image: Path, broken: Broken) -> None:
    row = plugin(broken, KNOWN, "ncclNet_v9").verify(image, CHECK)
    holds(row)
    assert f"RCCL takes {KNOWN}" in row["output"]


def test_a_plugin_that_is_not_there_is_reported(image: Path, broken: Broken) -> None:
    caught(broken.verify(image, CHECK), "finds no librccl-net.so", "through sockets")


def test_a_plugin_of_another_name_than_rccl_asks_for_is_named(image: Path, broken: Broken) -> None:
    plugin(broken, KNOWN).env("NCCL_NET_PLUGIN", "cxi")
    caught(broken.verify(image, CHECK), "finds no librccl-net-cxi.so, which RCCL asks for")


def test_an_interface_that_rccl_does_not_know_is_reported(image: Path, broken: Broken) -> None:
    row = plugin(broken, "ncclNet_v9", "ncclNetPlugin_v99").verify(image, CHECK)
    caught(row, "offers the interfaces ncclNet_v9, ncclNetPlugin_v99")
    caught(row, "/librccl.so.1 knows ncclNetPlugin_v4, ncclNet_v4", KNOWN)


def test_a_plugin_without_libfabric_is_reported(image: Path, broken: Broken) -> None:
    plugin(broken, KNOWN, needs="libc.so.6")
    caught(broken.verify(image, CHECK), "is not linked with libfabric.so.1")


def test_a_plugin_without_a_library_that_it_needs_is_reported(image: Path, broken: Broken) -> None:
    plugin(broken, KNOWN, needs="libcxi.so.9")
    caught(broken.verify(image, CHECK), "libcxi.so.9 not found, which", "librccl-net.so needs")


def test_a_plugin_with_its_own_libfabric_is_reported(image: Path, broken: Broken) -> None:
    over = Root(broken.folder / "upper")
    own = over.library("/opt/other/libfabric.so.1")
    flags = ["-Wl,-rpath,/opt/other"]
    over.library(f"{LIBRARIES}/librccl-net.so", defines=[KNOWN], needs=[own], flags=flags)
    row = broken.verify(image, CHECK)
    caught(row, "takes /opt/other/libfabric.so.1", "libfabric is /lib/x86_64-linux-gnu/libfab")
