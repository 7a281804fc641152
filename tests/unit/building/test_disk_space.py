"""A build reports missing disk space before it begins."""

import sys
from pathlib import Path

import pytest

from lumicontainer.building.disk_space import shared_warning
from lumicontainer.inside.node.hardware import Node

from ...namespaces import owned, prepared
from ...programs import run

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


REQUIRE = """
import sys
from pathlib import Path
from lumicontainer.building.disk_space import Need, require
from lumicontainer.errors import SpaceError
root = Path(sys.argv[1])
wanted = (("cache", 240, "LUMICONTAINER_CACHE"), ("image", 240, "--output"))
needs = [Need(f"the {name}", root / name, size << 20, 10, option) for name, size, option in wanted]
for name in ("image", "cache"):
    (root / name).mkdir(parents=True, exist_ok=True)
try:
    require(needs[:int(sys.argv[2])])
except SpaceError as error:
    sys.exit(str(error))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "options", "why"),
    [
        (1, "size=450M", ""),
        (2, "size=450M", "they need 480.0 MiB together, and 450.0 MiB are free"),
        (2, "size=1G,nr_inodes=18", "they need 20 inodes together, and 15 are free"),
    ],
)
def test_what_places_on_one_file_system_need_is_added(
    tmp_path: Path, places: int, options: str, why: str
) -> None:
    mount = f"mount -t tmpfs -o mode=700,{options},{owned()} none {tmp_path}"
    done = run([*prepared("mount", mount), sys.executable, "-c", REQUIRE, tmp_path, places])
    expected = [
        "error: not enough space for the cache and the image",
        f"  where: {tmp_path}/cache",
        f"         {tmp_path}/image",
        f"    why: {why}",
        "   hint: free some space, or name other places with LUMICONTAINER_CACHE or --output",
    ]
    assert done.stderr.splitlines() == (expected if why else [])


@pytest.mark.slow
def test_what_another_file_system_needs_is_not_added(tmp_path: Path) -> None:
    other = f"mount -t tmpfs -o mode=700,size=250M,{owned()} none"
    mounts = f"mkdir {tmp_path}/cache {tmp_path}/image && {other} {tmp_path}/cache"
    command = prepared("mount", f"{mounts} && {other} {tmp_path}/image")
    assert run([*command, sys.executable, "-c", REQUIRE, tmp_path, 2]).stderr == ""
