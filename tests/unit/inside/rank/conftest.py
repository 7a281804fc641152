"""Write what the kernel and the image of a LUMI-G node state."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.plan.records import platform_tables
from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.environment import Setting
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank.context import Options

from .. import lumi_node
from ..deciding import decide, settings

Table = Mapping[str, Any]
LUMI: Table = {"name": "lumi-g", **platform_tables(open_catalog().platform("lumi-g"))}


class World:
    """A LUMI-G node without GPUs whose image has ROCm 6.4."""

    def __init__(self, root: Path) -> None:
        self.root = lumi_node.write(root, buses=())
        self.layers = {"rocm": "", "aws-ofi-nccl": "1.20.0", "libfabric": "2.1"}
        self.write("opt/rocm/.info/version", "6.4.4-129")
        (root / "tmp").mkdir()
        for device in (root / "sys/class/cxi").iterdir():
            device.resolve().mkdir(parents=True)
            self.write(f"sys/class/cxi/{device.name}/device/properties/rdzv_get_en", "1")

    def write(self, file: str, text: str) -> None:
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def decide(self, env: Mapping[str, str], table: Table = LUMI, **options: str) -> Decision:
        platform, settings = {**table, "layers": self.layers}, Options(**options)
        return decide(env, node=Node(str(self.root)), platform=platform, options=settings)

    def settings(self, env: Mapping[str, str], table: Table = LUMI) -> dict[str, Setting]:
        return settings(self.decide(env, table))


@pytest.fixture
def lumi(tmp_path: Path) -> World:
    return World(tmp_path)
