"""Ranks on a node of LUMI-G, each in its own container, by the image's own lumi-entry."""

import getpass
import os
import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from .. import lumi_container
from ..cli.conftest import succeeded
from ..namespaces import as_root
from .conftest import ENGINE, run
from .processes import SECONDS, started, wait_for

RANKS = 16
ASK = (
    "import os\nnames = 'RANK', 'HIP_VISIBLE_DEVICES', 'TRITON_CACHE_DIR'\n"
    "print(*(os.environ[name] for name in names), len(os.sched_getaffinity(0)))\n"
)
# A program that an ordinary user traces gets no rights by setuid, as fusermount wants them.
USER = ["-u", getpass.getuser()] if os.getuid() else []
TRACING = [*as_root(), "strace", *USER, "-ff", "-y", "-qq", "-s", "4096"]
TRACING += ["-e", "trace=%file,%process", "-o"]
OPENED = re.compile(r'^(?:open|openat|openat2|creat)\((?:[A-Z_0-9]+<(.*?)>, )?"(.*?)"')
BEGUN = re.compile(r"^(?:clone|clone3|fork|vfork)\(.*\)\s+= (\d+)$")
ENTRY = 'execve("/usr/local/bin/lumi-entry"'
PROGRAM = 'execve("/opt/venv/bin/python3", ["/opt/venv/bin/python3", "/'
"""The program of a rank; processes of lumi-entry have options between the name and a path."""
SAID = r"(preflight of .* not checked: names .*\n)?affinity: .* rank \d+ gpu .*\n"
"""The output of a rank; the interfaces of this node have no address."""
IMAGE = ("/opt", "/usr", "/lib", "/lib64", "/etc", "/.singularity.d")
LOCALTIME = "/etc/localtime"
"""The engine shows the host's in every container, and every Python reads it as it starts."""


@pytest.fixture
def caches(tmp_path: Path) -> Path:
    """Return the folder on the node that caches are made in."""
    folder = tmp_path / "node"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def container(image: Path, tmp_path: Path) -> list[str]:
    """Return the engine's words for a container of the image on a node of LUMI-G."""
    (tmp_path / "files").mkdir()
    words = lumi_container.binds(tmp_path / "files")
    return [ENGINE, "-s", "exec", "--userns", *words, "--bind", str(tmp_path), str(image)]


def variables(rank: int, ranks: int, caches: Path) -> dict[str, str]:
    """Return the environment of a task of Slurm that finds ``caches`` as its TMPDIR."""
    return {**lumi_container.task(rank, ranks, 77), "TMPDIR": str(caches)}


def test_sixteen_ranks_at_once_start_without_an_error_and_leave_no_cache(
    container: list[str], caches: Path, tmp_path: Path
) -> None:
    program = tmp_path / "ask.py"
    program.write_text(ASK)
    options = [*lumi_container.EVERY_FEATURE, "--log-dir", str(tmp_path / "logs")]
    entry = [*container, "lumi-entry", *options, program]
    with ExitStack() as running:
        tasks = [
            running.enter_context(started(entry, env=variables(rank, RANKS, caches)))
            for rank in range(RANKS)
        ]
        words = [task.communicate(timeout=SECONDS)[1] for task in tasks]
    assert [task.returncode for task in tasks] == [0] * RANKS, words
    said = [path.read_text() for path in sorted((tmp_path / "logs").glob("*.out"))]
    folder = caches / f"lumi-{os.geteuid()}-77.0-once/triton"
    assert said == [f"{rank} {rank % 8} {folder} 1\n" for rank in range(RANKS)]
    assert [text for text in words[1:] if not re.fullmatch(SAID, text)] == []
    wait_for(lambda: not list(caches.iterdir()))


def test_ranks_that_all_have_a_list_of_one_gpu_say_so_once(
    container: list[str], caches: Path
) -> None:
    entry = [*container, "lumi-entry", "--", "true"]
    with ExitStack() as running:
        tasks = [
            running.enter_context(
                started(entry, env={**variables(rank, 4, caches), "HIP_VISIBLE_DEVICES": "0"})
            )
            for rank in range(4)
        ]
        words = "".join(task.communicate(timeout=SECONDS)[1] for task in tasks)
    assert [task.returncode for task in tasks] == [0] * 4, words
    assert words.count("if all ranks have this list, they share it") == 1


def opened(trace: Path) -> set[str]:
    """Return every path that lumi-entry and its children tried to open but for its program.

    ``trace`` is the beginning of the names of strace's files, one for each process.
    """
    files = {int(path.suffix[1:]): path.read_text() for path in trace.parent.glob("trace.*")}
    (pid,) = [pid for pid, text in files.items() if ENTRY in text]
    paths, programs = set(), 0
    texts = [files[pid].partition(ENTRY)[2]]
    while texts:
        own, program, _ = texts.pop().partition(PROGRAM)
        programs += bool(program)
        for line in own.splitlines():
            if begun := BEGUN.match(line):
                texts.append(files.pop(int(begun[1]), ""))
            elif match := OPENED.match(line):
                path = os.path.normpath(Path(match[1] or "/", match[2]))
                paths.add("/" + path.lstrip("/"))
    assert programs == 1
    return paths


@pytest.mark.parametrize("rank", [0, 1])
def test_lumi_entry_opens_nothing_but_the_image_the_kernel_s_files_and_the_caches(
    container: list[str], caches: Path, tmp_path: Path, rank: int
) -> None:
    program = tmp_path / "nothing.py"
    program.touch()
    trace = tmp_path / "trace"
    entering = [*container, "lumi-entry", *lumi_container.EVERY_FEATURE, program]
    succeeded(run([*TRACING, trace, *entering], env=variables(rank, 8, caches), cwd=tmp_path))
    mounts = run([*container, "cat", "/proc/self/mountinfo"], cwd=tmp_path).stdout.splitlines()
    mounted = {line.split()[4] for line in mounts} - {"/", lumi_container.RECORD}
    expected = ("/sys", "/proc", "/dev", LOCALTIME, str(caches))
    paths = {path for path in opened(trace) if not _is_below(path, expected)}
    # The names in the root say whether an extension hides packages of the image.
    paths.discard("/")
    foreign = {path for path in paths if not _is_below(path, IMAGE) or _is_below(path, mounted)}
    assert foreign == set()
    # What the check of the node loads is seen too, which another process does.
    names = {Path(path).name for path in paths}
    assert {"decide.cpython-311.pyc", "platform.json"} <= names
    assert (lumi_container.PLUGIN in names) == (rank == 0)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)
