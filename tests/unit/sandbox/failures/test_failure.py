"""The error of a failed step is reported, whatever becomes of its state."""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.building.checks import smoke
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import DownloadError, StepError
from lumicontainer.sandbox.failures.failure import no_space, step_failure
from lumicontainer.sandbox.step_run import STAGED
from lumicontainer.sandbox.workspace import FAILED, Workspace
from lumicontainer.system.terminal import masking

from ....programs import run as started

pytestmark = pytest.mark.slow

SECRET = "canary-5e3f9b1c77d2"


@pytest.fixture(autouse=True)
def hidden() -> Iterator[None]:
    masking.hide([SECRET])
    yield
    masking._hidden.clear()


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Return the run of a step with a log, in a build whose programs this user starts as such."""
    place = Workspace(tmp_path)
    place.log("greet").write_text("this went wrong\n")
    staged = tmp_path / "step-greet/tmp" / STAGED
    staged.mkdir(parents=True)
    resolved = SimpleNamespace(recipe=SimpleNamespace(name="hello"), included=tuple)
    runtime = SimpleNamespace(as_root=list, check=lambda *_: ["true"])
    builder = SimpleNamespace(
        place=place, plan=SimpleNamespace(resolved=resolved), runtime=runtime, began=0.0
    )
    return SimpleNamespace(
        builder=builder, name="greet", output=None, staged=staged, jobs=1, command=list
    )


def cannot_be_scrubbed(folder: Path) -> None:
    """Make a file with a secret name, and a folder that has the name without the secret."""
    file = folder / SECRET
    file.touch()
    (folder / f"***-{file.stat().st_ino}").mkdir()


@pytest.mark.parametrize(
    ("said", "name", "where"),
    [
        ("Disk quota exceeded: '{cache}/objects/x'", "the cache", "cache"),
        ("cp: error writing '{images}/.small.sif': No space left on device", "image's", "images"),
        ("Disk quota exceeded: '{cache}/images-2'", "the cache", "cache"),
        ("No space left on device: '{temporary}/x' -> '{cache}/y'", "the cache", "cache"),
        ("No space left on device: '{cache}/x' -> '{temporary}/y'", "temporary", "temporary"),
    ],
)
def test_the_folder_that_is_full_is_the_one_in_the_message(
    tmp_path: Path, said: str, name: str, where: str
) -> None:
    cache = tmp_path / "cache"
    places = {"cache": cache, "images": cache / "images", "temporary": tmp_path / "temporary"}
    for folder in places.values():
        folder.mkdir()
    place = Workspace(places["temporary"] / "hello-x")
    builder: Any = SimpleNamespace(place=place, cache=SimpleNamespace(root=cache))
    error = no_space(builder, said.format(**places), output=places["images"] / "small.sif")
    assert error is not None
    (problem,) = error.problems
    assert name in problem.what
    assert problem.where == str(places[where])


def test_the_state_of_a_failed_step_is_kept_without_its_secrets(run: Any) -> None:
    (run.staged / "site.sh").write_text(SECRET)
    error = step_failure(run, 3)
    assert isinstance(error, StepError)
    assert "lumicontainer debug hello" in str(error)
    assert (run.staged / "site.sh").read_text() == "***"
    assert run.builder.place.keep
    assert (run.builder.place.root / FAILED).exists()


def test_a_state_whose_secrets_cannot_be_removed_is_not_kept(run: Any) -> None:
    cannot_be_scrubbed(run.staged)
    error = step_failure(run, 3)
    assert isinstance(error, StepError)
    (problem,) = error.problems
    assert problem.what == "the step 'greet' failed (exit code 3)"
    assert problem.why == "this went wrong"
    assert "the state is not kept: secrets cannot be removed" in problem.hint
    assert "Is a directory" in problem.hint
    place = run.builder.place
    assert (place.keep, place.keep_logs) == (False, True)
    assert not (place.root / FAILED).exists()


PIP = (
    "ERROR: Could not find a version that satisfies the requirement six==1.0 (from versions: 0.9)\n"
)
OWN = (
    "error: six has only wheels for another machine\n"
    "  where: https://files.example/six.whl\n"
    "    why: they are large,\n"
    "         and of no use\n"
    "   hint: make https://wheels.example reachable\n"
)


@pytest.fixture
def step_of_six(run: Any, resolved: Callable[..., Resolved]) -> Any:
    """Return the run of a step whose layer names the package six."""
    files = {"layers/greet/layer.yaml": "summary: x\npackages: {python: ['six==1.0']}\n"}
    run.builder.plan.resolved = resolved(files)
    run.sandbox = run.staged.parent
    return run


NO_SERVER = "http://127.0.0.1:9"
NOWHERE = "ERROR: No matching distribution found for six==1.0\n"


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (1, PIP, DownloadError.code),
        (1, f"{PIP}{NOWHERE}", DownloadError.code),
        (6, PIP, DownloadError.code),
    ],
)
def test_the_last_error_of_a_layer_s_script_wins_over_a_complaint_before_it(
    step_of_six: Any, status: int, said: str, code: int
) -> None:
    step_of_six.builder.place.log("greet").write_text(f"{said}asking elsewhere\n{OWN}")
    error = step_failure(step_of_six, status)
    own, failed = error.problems
    assert error.code == code
    assert own.what == "six has only wheels for another machine"
    assert own.why == "they are large,\nand of no use"
    assert own.hint == "make https://wheels.example reachable"
    assert failed.what == f"the step 'greet' failed (exit code {status})"
    assert "lumicontainer debug hello" in failed.hint


def pip_failure(step_of_six: Any, requirement: str) -> Any:
    """Return the error of a step in which pip does not get a package."""
    words = ("install", "--isolated", "--dry-run", "--retries", "1", "--index-url", NO_SERVER)
    env = {"PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1"}
    done = started([sys.executable, "-m", "pip", *words, requirement], env=env)
    step_of_six.builder.place.log("greet").write_text(done.stdout + done.stderr)
    return step_failure(step_of_six, done.returncode)


@pytest.mark.parametrize("requirement", ["six==1.0", f"{NO_SERVER}/six-1.0-py3-none-any.whl"])
def test_an_index_or_a_server_of_files_out_of_reach_is_a_failed_download(
    step_of_six: Any, requirement: str
) -> None:
    error = pip_failure(step_of_six, requirement)
    assert (type(error), error.code) == (DownloadError, 6)
    assert "correct the name" not in str(error)


def test_a_file_that_its_server_does_not_have_is_a_failed_download(
    step_of_six: Any, tmp_path: Path
) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/six-1.0-py3-none-any.whl"
        error = pip_failure(step_of_six, url)
        server.shutdown()
    assert "HTTP error 404 while getting" in str(error)
    assert error.code == DownloadError.code


def test_an_error_of_a_script_with_another_hint_is_no_failed_download(step_of_six: Any) -> None:
    own = OWN.replace("make https://wheels.example reachable", "make room for the wheels")
    step_of_six.builder.place.log("greet").write_text(f"{PIP}{own}")
    assert step_failure(step_of_six, 1).code == StepError.code


def test_an_error_of_a_compiler_has_no_hint_and_hides_no_missing_package(step_of_six: Any) -> None:
    step_of_six.builder.place.log("greet").write_text(f"{PIP}error: invalid operand\n    add r1\n")
    assert "'six' has no version '1.0'" in str(step_failure(step_of_six, 1))


def test_an_image_beside_secrets_that_cannot_be_removed_is_not_kept(run: Any) -> None:
    cannot_be_scrubbed(run.staged)
    partial = run.staged / "partial"
    partial.write_text("image")
    kept, problem = smoke._refused(run.builder, partial)
    assert kept is None
    assert "the image is not kept: secrets cannot be removed" in problem.hint
    assert not run.builder.place.keep
