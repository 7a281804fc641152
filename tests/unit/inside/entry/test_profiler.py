"""Chosen ranks run under a profiler, each with its own folder; the others run as they are."""

from pathlib import Path

import pytest

from .. import seen
from ..conftest import PATH, Entry

pytestmark = pytest.mark.slow

ROCPROF = '#!/bin/sh\necho "$0"\nfor word; do echo "$word"; done\n'
# The part of PyTorch that is asked for; the real one is in the images alone.
TORCH = """
class profile:
    def __init__(self, **options): self.calls = ""
    def start(self): self.calls += "started "
    def stop(self): self.calls += "stopped"
    def export_chrome_trace(self, path): open(path, "x").write(self.calls)
"""
SCRIPT = """
import sys, json
print(json.dumps([__name__, sys.argv, sys.path[0], sys.modules["__main__"].__file__]))
import beside
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """Return a PATH with profilers that print how they were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("rocprofv3", "rocprof"):
        (folder / name).write_text(ROCPROF)
        (folder / name).chmod(0o755)
    return f"{folder}:{PATH}"


def folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if ".profile" in path.name)


def test_only_the_named_ranks_are_profiled(entry: Entry, tools: str, tmp_path: Path) -> None:
    words = ("--profile", "0,2-3", "--", "echo", "plain")
    done = [entry(*words, env={**seen.srun(rank), "PATH": tools}) for rank in range(4)]
    assert done[1].stdout == "plain\n"
    called = done[2].stdout.splitlines()
    assert called[0] == f"{tmp_path}/bin/rocprofv3"
    assert called[-3:] == ["--", "echo", "plain"]
    assert f"{tmp_path}/1.0-rank2.profile" in called
    assert folders(tmp_path) == [f"1.0-rank{rank}.profile" for rank in (0, 2, 3)]


def test_a_profile_replaces_no_earlier_one(entry: Entry, tools: str, tmp_path: Path) -> None:
    for _ in range(2):
        words = ("--profile", "all", "--profiler", "rocprof", "--log-dir", "logs", "--", "true")
        done = entry(*words, env={**seen.srun(3), "PATH": tools})
        assert (done.returncode, done.stderr) == (0, "")
    assert folders(tmp_path / "logs") == ["1.0-rank3.profile", "1.0-rank3.profile.1"]
    printed = (tmp_path / "logs/1.0-rank3.1.out").read_text().splitlines()
    assert f"{tmp_path}/logs/1.0-rank3.profile.1/trace.csv" in printed


def test_a_profiler_that_is_not_there_stops_every_rank_with_the_hint(entry: Entry) -> None:
    done = [entry("--profile", "1", "--", "true", env=seen.srun(rank)) for rank in range(3)]
    assert [one.returncode for one in done] == [2, 2, 2]
    assert [one.stderr.count("\n") for one in done] == [4, 0, 0]
    assert done[0].stderr.startswith("error: the profiler 'rocprofv3' is not in the image\n")
    assert "hint: use --profiler torch" in done[0].stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--profile", "x"), "expected 'all' or a list of ranks from 0 to 3, such as 0,8-15"),
        (("--profile", "0,8-15"), "got '0,8-15'"),
        (("--profiler", "rocprof"), "--profiler needs --profile"),
        (("--profile", "0", "--profiler", "perf"), "argument --profiler: invalid choice: 'perf'"),
        (("--profile", "0", "--profiler", "torch"), "not '-- COMMAND'"),
    ],
)
def test_a_wrong_profile_is_refused(entry: Entry, words: tuple[str, ...], what: str) -> None:
    done = entry(*words, "--", "true", env=seen.srun(0))
    assert done.returncode == 2
    assert what in done.stderr


@pytest.mark.parametrize(
    ("program", "folder"), [(["code/train.py"], "."), (["-m", "train"], "code")]
)
@pytest.mark.parametrize("code", [0, 7])
def test_torch_profiles_a_program_that_sees_what_it_would_see_without(
    entry: Entry, tmp_path: Path, program: list[str], folder: str, code: int
) -> None:
    torch = tmp_path / "site/torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").touch()
    (torch / "profiler.py").write_text(TORCH)
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text(SCRIPT)
    (tmp_path / "code/beside.py").touch()
    words = (*program, str(code), "-m")
    env, cwd = {"PYTHONPATH": str(torch.parent), **seen.srun(0)}, tmp_path / folder
    plain = entry(*words, env=env, cwd=cwd)
    done = entry("--profile=0", "--profiler=torch", *words, env=env, cwd=cwd)
    assert done.returncode == code
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert (cwd / "1.0-rank0.profile/trace.json").read_text() == "started stopped"


def test_a_profile_s_folder_that_cannot_be_created_is_an_error(entry: Entry, tools: str) -> None:
    words = ("--profile", "0", "--", "echo")
    done = entry(*words, env={**seen.srun(0), "PATH": tools}, cwd=Path("/proc"))
    assert done.returncode == 3
    assert "cannot create a folder for the profile: No such file or directory" in done.stderr
    assert "choose a writable folder with --log-dir" in done.stderr
