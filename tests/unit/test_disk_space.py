"""What is said of the places of a build before it begins."""

from pathlib import Path

import pytest

from lumicontainer.build.disk_space import shared_warning
from lumicontainer.inside.node.hardware import Node

MOUNTS = """\
21 1 0:20 / / rw - ext4 /dev/sda1 rw
35 21 0:33 / /scratch rw shared:12 - lustre 10.1.2.3@tcp:/scratch rw,localflock
36 21 0:34 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(("folder", "warned"), [("/scratch/x", True), ("/tmp/x", False)])
def test_a_shared_temporary_folder_is_warned_of(folder: str, warned: bool, tmp_path: Path) -> None:
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text(MOUNTS)
    problem = shared_warning(Path(folder), Node(str(tmp_path)))
    assert (problem is not None) == warned
    assert problem is None or "lustre" in problem.why
