"""Take turns with one lock by two mounts of folders of NFS; write what was seen as JSON.

This is the first process of a Linux that runs as a program, with the files of this host. Its kernel
has the server and the client. The mounts share no cache, like two nodes.
"""

import ctypes
import json
import os
import subprocess
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lumicontainer.system.files import partial

_MODULES = Path("/usr/lib/uml/modules") / os.uname().release
_SERVED = Path("/run/served")
_EXPORTS = {"memory": "", "disk": "disk"}
"""Folders below: a tmpfs, whose removed files the server forgets, and in it a disk, whose changes
it counts, as those of servers do."""
_TURNS, _THREADS = 200, 6
_FINIT_MODULE, _POWER_OFF = 313, 0x4321FEDC
"""The number of a system call on x86-64, and the order of reboot(2)."""
_LIBC = ctypes.CDLL(None, use_errno=True)


def _call(*words: object) -> None:
    subprocess.run(list(map(str, words)), check=True)


def _load_modules(*names: str) -> None:
    """Load modules and what they need, without a program for it."""
    rows = (line.partition(":") for line in (_MODULES / "modules.dep").read_text().splitlines())
    needs = {path: others.split() for path, _, others in rows}
    for path in (each for each in needs if Path(each).stem in names):
        for each in (*reversed(needs[path]), path):
            with (_MODULES / each).open("rb") as file:
                _LIBC.syscall(_FINIT_MODULE, file.fileno(), b"", 0)


def _serve() -> None:
    for kind, place in (("proc", "/proc"), ("tmpfs", "/run"), ("tmpfs", "/var/lib/nfs")):
        _call("mount", "-t", kind, kind, place)
    for folder in ("/run/served/disk", "/var/lib/nfs/v4recovery"):
        Path(folder).mkdir(parents=True)
    _load_modules("nfsd", "nfsv4")
    _call("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    for name in ("nfsv4leasetime", "nfsv4gracetime"):
        Path("/proc/fs/nfsd", name).write_text("10")
    _call("mount", "/dev/ubda", _SERVED / "disk")
    _call("ip", "link", "set", "lo", "up")
    Path("/var/lib/nfs/etab").touch()
    for number, folder in enumerate(_EXPORTS.values()):
        options = f"rw,no_root_squash,insecure,no_subtree_check,fsid={number}"
        _call("exportfs", "-o", options, f"127.0.0.1:{_SERVED / folder}")
    _call("rpc.mountd", "--no-nfs-version", 3)
    _call("rpc.nfsd", "--no-nfs-version", 3, 4)


def _mount_twice(export: str) -> list[Path]:
    mounts = [Path(f"/run/{export}-{number}") for number in range(2)]
    for mount in mounts:
        mount.mkdir()
        options = "nosharecache,addr=127.0.0.1,clientaddr=127.0.0.1"
        _call("mount", "-i", "-t", "nfs4", "-o", options, f"127.0.0.1:/{_EXPORTS[export]}", mount)
    folders = [mount / "results" for mount in mounts]
    folders[0].mkdir()
    return folders


def _take_turns(folders: list[Path]) -> dict[str, object]:
    inside, most, counting = 0, 0, threading.Lock()
    failures: list[str] = []

    def enter(number: int) -> None:
        nonlocal inside, most
        try:
            with partial.hold_folder(folders[number % len(folders)]):
                with counting:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.001)
                with counting:
                    inside -= 1
        except Exception as error:  # noqa: BLE001 - the test shows them
            failures.append(str(error))

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(enter, range(_TURNS)))
    return {"most": most, "failures": failures, "left": [*folders[0].glob(f"{partial.LOCK}*")]}


def main() -> None:
    """Serve, take turns, and power off."""
    try:
        _serve()
        seen = {export: _take_turns(_mount_twice(export)) for export in _EXPORTS}
        Path(os.environ["RESULT"]).write_text(json.dumps(seen, default=str))
    except Exception:  # noqa: BLE001 - the test shows it
        traceback.print_exc()
    finally:
        os.sync()
        _LIBC.reboot(_POWER_OFF)


if __name__ == "__main__":
    main()
