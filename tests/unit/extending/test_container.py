"""A container in which packages run has its own limits."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from lumicontainer.errors import LumicontainerError
from lumicontainer.extending import container
from lumicontainer.extending.container import Container, Mounts
from lumicontainer.host.site import Site
from lumicontainer.system import budget
from lumicontainer.system.programs import folder_limit

pytestmark = pytest.mark.slow

FILL = {
    "a file": "mkdir -p $0/deep/er; head -c 3000000 /dev/zero >$0/deep/er/x",
    "a file that has no name": "exec 3>$0/x; rm $0/x; head -c 3000000 /dev/zero >&3",
}


@pytest.mark.parametrize("fill", FILL.values(), ids=FILL)
def test_a_container_that_fills_its_folder_is_ended(
    fill: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(_: Path, command: Sequence[str], **__: object) -> Sequence[str]:
        return command

    monkeypatch.setattr(container, "find_engine", lambda: SimpleNamespace(execute=execute))
    monkeypatch.setattr(folder_limit, "_PAUSE", 0)
    site = Site("", "", None, {}, (), {}, {})
    opened = Container(tmp_path / "image.sif", tmp_path, site)
    folder = opened.part("files")
    limits = budget.RESOLVE._replace(written=1 << 20, seconds=60)
    command = ["bash", "-c", f"{fill}; exec sleep 600", str(folder)]
    with pytest.raises(LumicontainerError, match="it wrote more than 1048576 bytes") as error:
        opened.run(Mounts(folder), command, {}, limits=limits)
    assert error.value.problems[0].hint.startswith("add the packages one by one")
