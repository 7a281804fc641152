"""Fixtures of all tests."""

import fcntl
import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.resolve.resolve import resolve

ROOT = Path(__file__).parents[1]

# Under nohup, or in the background of a script, what tests start would ignore a signal too, and a
# test that sends it would wait for ever; of a handler nothing is handed down.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

# What takes long here says how busy the machine is.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

Write = Callable[[dict[str, str]], Path]
AT_START = dict(os.environ)
"""The environment in which the tests began."""


READ_FLAGS, WRITE_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of linux/fs.h."""
TOP_FOLDER = 0x00020000
"""EXT4_TOPDIR_FL of the kernel's fs/ext4/ext4.h; chattr calls it T."""


def spread(folder: Path) -> None:
    """Let ext4 place each folder in ``folder`` elsewhere on the disk; others ignore it.

    Without a journal it passes over inodes that were freed in the last minutes, one by one. Trees
    of builds that are unpacked where others were removed took twice as long.
    """
    place = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            (flags,) = struct.unpack("I", fcntl.ioctl(place, READ_FLAGS, bytes(4)))
            fcntl.ioctl(place, WRITE_FLAGS, struct.pack("I", flags | TOP_FOLDER))
    finally:
        os.close(place)


class SharedFixtures:
    """Make what all tests share in the environment of the start.

    The test that asks for it first may have another cache, Docker engine or index. The session is
    above this folder, so that this hook in a conftest.py would not see its fixtures.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Any:
        if fixturedef.scope != "session":
            return (yield)
        with mock.patch.dict(os.environ, AT_START, clear=True):
            return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SharedFixtures())


@pytest.fixture(scope="session", autouse=True)
def _spread_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    spread(tmp_path_factory.getbasetemp())


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files of a user's own recipes folder, and return the folder."""

    def write_files(files: dict[str, str]) -> Path:
        folder = tmp_path / "own"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    return write_files


HELLO = {
    "hello.yaml": "summary: a small image\nbase: tiny\nlayers:\n  - greet\n",
    "layers/tiny/layer.yaml": (
        "summary: the base\n"
        "bootstrap:\n  cpu: {agent: debootstrap, release: bookworm, "
        "docker_image: 'debian:bookworm', include: [python3]}\n"
    ),
    "layers/greet/layer.yaml": (
        "summary: says hello\nparameters:\n"
        "  greeting: {type: string, default: hello}\n"
        "  loud: {type: boolean, default: false, unsupported: {cpu: no loudspeaker}}\n"
        "  times: {type: integer, default: 1}\n"
    ),
    "layers/greet/install.sh": 'set -euo pipefail\necho "$greeting" >/opt/greeting\n',
}
"""A user's own recipe of two layers, as texts by file name."""


STRANGE = {
    "TILDE": "~/x",
    "TILDE_ALONE": "~",
    "PERCENT": "%post",
    "STAGE": "bootstrap: docker",
    "ARGUMENT": "{{ x }} {{{ y }}}",
    "COMMANDS": "$(id) `id` ${1} $$ !x",
    "QUOTES": 'it\'s "quoted"',
    "BACKSLASHES": "\\ \\n \\",
    "OPTION": "-n x",
    "BLANKS": " before and after ",
    "CONTROL": "\t\x01\x1b[2J\x7f",
    "RETURN": "a\r",
    "LETTERS": "é \u2028",
    "EMPTY": "",
    "SEVERAL": "one\n%two\n bootstrap: three\n\n",
    "OPTION_LINES": "-n %s\n\\n $(id)",
    "TILDE_LINES": "~/x\n~",
}
"""Values of variables that a shell, an engine or a document could read as something else."""

CHECK = "# /// check\n# summary: something holds\n# hint: build it again\n# ///\n"
"""The beginning of a check."""


@pytest.fixture
def resolved(write: Write) -> Callable[..., Resolved]:
    """Resolve the recipe ``hello`` from given files, for the platform ``workstation``."""

    def resolve_hello(files: dict[str, str] | None = None, *options: str) -> Resolved:
        catalog = open_catalog(write({**HELLO, **(files or {})}))
        return resolve(catalog.materials("hello", "workstation"), options)

    return resolve_hello


CLUSTER = tuple(
    f"tests/{name}.py"
    for name in (
        *("integration/test_verify_slurm", "integration/test_verify_ranks"),
        *("integration/test_training", "integration/test_entry_slurm", "integration/test_reframe"),
        *("integration/test_build_jobs", "integration/test_job_forms", "integration/test_job"),
        *("integration/test_until_done", "integration/test_documents_slurm"),
        *("integration/test_postmortem_slurm", "integration/test_top"),
        *("integration/test_module_programs", "integration/test_kernel"),
        "contracts/test_launchers",
    )
)
"""The files whose tests have the cluster to themselves: two workers would wait for each other."""
RELIABILITY = "tests/integration/reliability/"
"""The folder whose files share a base that is made from nothing: one worker makes it once."""
LONGEST = tuple(
    f"tests/{name}.py"
    for name in (
        *("integration/reliability/test_changes", "faults/test_gpu_checks"),
        *("integration/test_documents", "integration/test_layers", "faults/test_training"),
        "faults/test_lost_nodes",
        *("integration/test_locked", "integration/test_without_internet"),
        *("integration/test_docker_build", "integration/test_reproducible"),
        *("integration/test_without_namespaces", "integration/test_build"),
        *("integration/test_rocm_debian", "faults/test_rocm_layers", "integration/test_image"),
        *("recipes/test_scripts_torch", "faults/test_changed_bytes", "faults/test_canaries"),
        *("integration/test_shared_cache", "integration/test_extend"),
    )
)
"""The files that take about a minute or more, the longest first: the workers end together."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate((*CLUSTER, *LONGEST))}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Give whole files to the workers; one of them gets all files of the cluster."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


class FileScheduling(LoadFileScheduling):
    """Take the files that need the cluster for one, and those that share a base."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file in CLUSTER:
            return "cluster"
        return RELIABILITY if file.startswith(RELIABILITY) else file


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files")
