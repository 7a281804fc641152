"""Preflight asks the real resolver, of which a name service of the test's own decides how long."""

import sys
from pathlib import Path

import pytest

from ....conftest import ROOT
from ..conftest import lay_out, run

pytestmark = pytest.mark.slow

NODE = """\
mount -t sysfs none /sys
ip link set lo up
ip link add hsn0 type veth peer name far
ip address add 10.253.0.1/24 dev hsn0
ip link set hsn0 up
ip link set far up
exec "$@"
"""
"""A network of its own with one high-speed interface, whose address no file of hosts has."""
ASKING = """\
import subprocess, sys
from pathlib import Path
from slow_names import slow_names

folder, seconds, *command = sys.argv[1:]
with slow_names(Path(folder), float(seconds)):
    for name in ("nsswitch.conf", "resolv.conf"):
        subprocess.run(["mount", "--bind", f"{folder}/{name}", f"/etc/{name}"], check=True)
    sys.exit(subprocess.run(command).returncode)
"""
ALONE = ("unshare", "--map-root-user", "--mount", "--net", "bash", "-euc", NODE, "bash")


@pytest.mark.parametrize(("seconds", "warned"), [(0, False), (1.5, True)])
def test_a_slow_name_service_is_named(tmp_path: Path, seconds: float, warned: bool) -> None:
    entry = lay_out(tmp_path / "image", {"name": "x", "interface_prefix": "hsn", "layers": {}})
    asking = (*ALONE, sys.executable, "-c", ASKING, tmp_path, str(seconds))
    done = run(*asking, entry, "--preflight", "--", "true", cwd=ROOT / "tests/bench")
    assert done.returncode == 0, done.stderr
    assert "10.253.0.1 in " in done.stderr
    assert ("s for 10.253.0.1 (getnameinfo)" in done.stderr) is warned, done.stderr
