"""Locks exclude other nodes on a real NFS."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from .conftest import check_output

MACHINE = Path(__file__).parents[1] / "nfs_machine.py"
SECONDS = 180


def test_a_folder_of_nfs_has_one_user_at_a_time(tmp_path: Path) -> None:
    disk, result = tmp_path / "disk", tmp_path / "result"
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    check_output("mkfs.ext4", "-q", disk)
    kernel = ["linux.uml", "mem=256M", "quiet", f"ubd0={disk}", "rootfstype=hostfs", "rootflags=/"]
    kernel += ["rw", "con=null", "con0=null,fd:1", f"uml_dir={tmp_path}", f"RESULT={result}"]
    kernel += ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    with subprocess.Popen(
        [*kernel, f"init={sys.executable}", "--", "-B", MACHINE],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    ) as machine:
        try:
            output, _ = machine.communicate(timeout=SECONDS)
        finally:
            # Its processes are children of this one's, which would outlive it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(machine.pid, signal.SIGKILL)
    assert result.exists(), output
    seen = json.loads(result.read_text())
    assert seen["disk"] == {"most": 1, "failures": [], "left": []}
    # The server notes the changes of its memory by the clock, which may be too coarse.
    assert seen["memory"] | {"most": 1} == seen["disk"]
