"""The interface in Python: what it returns and raises, and that it leaves its caller alone."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from spython.instance import Instance
from spython.main import Client

from lumicontainer import api, errors
from lumicontainer.host import site
from lumicontainer.system.files.temporary import temporary_root

from .conftest import write_small
from .processes import SECONDS, processes_of, started

SLOW = "layers/greet/install.sh", "echo it begins\ntail -f /dev/null\n"
"""An installation that never ends."""
PLAIN = "try:\n    work()\nexcept KeyboardInterrupt:\n    print('stopped')\n"
NOTEBOOK = """
import asyncio
async def cell():
    try:
        work()
    except KeyboardInterrupt:
        print('stopped')
asyncio.new_event_loop().run_until_complete(cell())
"""
"""Calls it as a notebook does, whose loop runs in the thread of the cells."""
PROGRAM = """
import sys
from pathlib import Path
from lumicontainer import api
image, recipes = sys.argv[1], Path(sys.argv[2])
def begun(event):
    print(event, flush=True)
def work():
    {work}
"""
BUILD = "api.build(recipes / 'small.yaml', 'new.sif', on_progress=begun)"
VERIFY = "api.verify(image, names=['proof/slow', 'proof/pictures'], on_progress=begun)"
STREAM = """
    words = ["sh", "-c", "echo it begins; exec tail -f /dev/null"]
    for line in api.inspect(image).execute(words, stream=True):
        print(line, flush=True)
"""
RUN = "print('it begins', flush=True); api.run(image, ['tail', '-f', '/dev/null'])"


def surroundings() -> object:
    root = logging.getLogger()
    own = [each for each in root.handlers if not type(each).__module__.startswith("_pytest")]
    variables = {each: os.environ[each] for each in os.environ if not each.startswith("PYTEST_")}
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    mask = os.umask(0)
    os.umask(mask)
    return Path.cwd(), variables, handlers, mask, root.level, own


@pytest.fixture(autouse=True)
def alone(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Hold every test of this file to a caller that is left alone, and to no output."""
    before, threads = surroundings(), set(threading.enumerate())
    yield
    assert surroundings() == before
    assert capfd.readouterr() == ("", "")
    assert {each for each in threading.enumerate() if not each.daemon} <= threads


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return recipes whose build never ends; it works in a folder of this test alone."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("LUMICONTAINER_TMPDIR", str(tmp_path / "tmp"))
    return write_small(tmp_path / "slow", dict([SLOW]))


def left(folder: Path) -> list[str]:
    """Return what a call left beside the recipes, and in the folder of builds."""
    builds = temporary_root().glob("[!.]*")
    beside = {each.name for each in folder.iterdir()} - {"slow", "tmp"}
    return [*beside, *(each.name for each in builds)]


def test_a_build_is_returned_and_done_once(recipes: Path, small: Path, tmp_path: Path) -> None:
    events: list[api.Event] = []
    image = api.build(recipes / "small.yaml", tmp_path / "new.sif", on_progress=events.append)
    assert (image.path, image.key) == (tmp_path / "new.sif", api.inspect(small).key)
    assert {"greet", "pack"} <= {each.step for each in events}
    assert "pack" in image.seconds
    assert not any("\n" in str(each) for each in events if each.event != "say")
    again = api.build(api.resolve(recipes / "small.yaml"), str(image.path))
    assert (again.key, again.seconds) == (image.key, {})


def test_a_build_ends_what_it_began_in_a_thread(
    recipes: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing, ended, read = threading.Event(), threading.Event(), site.read_site

    def late(release: str, mirrors: dict[str, str]) -> site.Site:
        assert packing.wait(SECONDS)
        mirrors_read = read(release, mirrors)
        ended.set()
        return mirrors_read

    def watch(event: api.Event) -> None:
        if event.step == "pack":
            packing.set()

    monkeypatch.setattr(site, "read_site", late)
    api.build(recipes / "small.yaml", tmp_path / "new.sif", on_progress=watch)
    assert ended.is_set()


def test_an_image_for_a_platform_of_the_user_s_own_runs_as_it_is_returned(tmp_path: Path) -> None:
    here = f"summary: mine\naccelerator: cpu\nbinds: [{{path: {tmp_path}, reason: my data}}]\n"
    recipes = write_small(tmp_path / "mine", {"envs/here.yaml": here})
    image = api.build(recipes / "small.yaml", tmp_path / "new.sif", platform="here")
    assert image.execute(["cat", f"{recipes}/envs/here.yaml"]).stdout == here


def test_problems_are_raised_with_their_hint(recipes: Path, small: Path, tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match=r"hint: did you mean 'small'") as wrong:
        api.resolve("smal", recipes=recipes)
    assert wrong.value.problems[0].where
    with pytest.raises(errors.LockError, match="hint: lumicontainer lock"):
        api.resolve("small", recipes=recipes, locked=True)
    broken = write_small(tmp_path / "broken", {SLOW[0]: "echo a fault >&2; exit 3\n"})
    with pytest.raises(errors.StepError, match="a fault"):
        api.build(broken / "small.yaml", tmp_path / "new.sif")
    assert not (tmp_path / "new.sif").exists()
    with pytest.raises(errors.InputError, match="cannot read the image"):
        api.inspect(tmp_path / "new.sif")
    with pytest.raises(errors.InputError, match="cannot bind a path that is not there"):
        api.run(small, ["true"], binds=["/nowhere:/mnt"])


def test_what_the_receiver_of_progress_raises_ends_the_build(slow: Path, tmp_path: Path) -> None:
    def stop(event: api.Event) -> None:
        if event.text == "it begins":
            raise ZeroDivisionError

    with ThreadPoolExecutor(1) as thread, pytest.raises(ZeroDivisionError):
        words = slow / "small.yaml", tmp_path / "new.sif"
        thread.submit(api.build, *words, on_progress=stop).result()
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("work", "caller"),
    [
        pytest.param(BUILD, PLAIN, id="build"),
        pytest.param(BUILD, NOTEBOOK, id="build in a notebook"),
        pytest.param(VERIFY, NOTEBOOK, id="verify in a notebook"),
        pytest.param(STREAM, PLAIN, id="stream"),
        pytest.param(RUN, PLAIN, id="run"),
    ],
)
def test_an_interrupted_call_leaves_nothing_behind(
    work: str, caller: str, proof: Path, slow: Path, tmp_path: Path
) -> None:
    program = PROGRAM.format(work=work.strip()) + caller
    command = [sys.executable, "-c", program, proof, slow]
    with started(command, cwd=tmp_path, env={"MARK": str(tmp_path)}) as running:
        assert any("it begins" in line or "proof/pictures" in line for line in running.stdout)
        running.send_signal(signal.SIGINT)
        printed, said = running.communicate(timeout=SECONDS)
    assert (running.returncode, printed.splitlines()[-1:]) == (0, ["stopped"]), printed + said
    assert processes_of(tmp_path) == []
    assert left(tmp_path) == []


def test_a_command_gets_its_words_and_variables_and_keeps_its_streams_apart(proof: Path) -> None:
    words = ("sh", "-c", 'printf "<%s>" "$WORD" "$PROOF" "$@"; echo no >&2; exit 3', "sh", "", "b")
    done = api.run(proof, words, environment={"WORD": 'it\'s $(id), "more"'})
    assert (done.returncode, done.stderr) == (3, "no\n")
    assert done.stdout == '<it\'s $(id), "more"><it is here><><b>'


def test_lines_arrive_while_a_command_runs_and_failures_raise(proof: Path, tmp_path: Path) -> None:
    image = api.inspect(proof, binds=[f"{tmp_path}:/mnt"])
    script = "echo begins; until test -e /mnt/go; do sleep 0.05; done; echo ends"
    lines = image.execute(["sh", "-c", script], stream=True)
    assert next(lines) == "begins\n"
    (tmp_path / "go").touch()
    assert list(lines) == ["ends\n"]
    # More than a pipe holds.
    many = "seq 100000 >&2; echo out; exit 4"
    lines = image.execute(["sh", "-c", many], stream=True)
    assert next(lines) == "out\n"
    with pytest.raises(errors.HostError, match=r"(?s)sh failed \(exit code 4\).*\b100000\b"):
        next(lines)


def test_a_stream_that_is_left_early_ends_its_command(proof: Path, tmp_path: Path) -> None:
    words = ["sh", "-c", "echo begins; exec tail -f /dev/null"]
    lines = api.inspect(proof).execute(words, stream=True, environment={"MARK": str(tmp_path)})
    assert next(lines) == "begins\n"
    lines.close()
    assert processes_of(tmp_path) == []


def test_an_instance_is_spython_s_with_the_binds_of_the_image(proof: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("mine\n")
    image = api.inspect(proof, binds=[f"{tmp_path}:/mnt"])
    with pytest.raises(ZeroDivisionError), image.instance() as instance:
        assert isinstance(instance, Instance)
        assert Client.execute(instance, ["cat", "/mnt/data"]) == "mine\n"
        assert list(instance.execute(["cat", "/mnt/data"], stream=True)) == ["mine\n"]
        assert instance.name in [each.name for each in Client.instances(quiet=True)]
        with pytest.raises(errors.HostError, match="the instance does not start"):
            image.instance(instance.name)
        raise ZeroDivisionError
    assert instance.name not in [each.name for each in Client.instances(quiet=True)]
    assert instance.execute(["true"]).returncode != 0


def test_a_report_has_every_check_and_raises_its_failures(proof: Path) -> None:
    events: list[api.Event] = []
    with ThreadPoolExecutor(1) as thread:
        names = ["proof/pictures", "proof/gpu", "proof/fails"]
        future = thread.submit(api.verify, proof, names=names, on_progress=events.append)
        report = future.result()
    states = {each["name"]: each["state"] for each in report.checks}
    assert states == dict(zip(names, ("passed", "skipped", "failed"), strict=True))
    assert sum("proof/" in (each.text or "") for each in events if each.event == "say") == 3
    assert not report.passed
    with pytest.raises(errors.ExaminedError, match=r"(?s)'proof/fails' failed.*hint: write & hint"):
        report.require()
    api.verify(proof, names=["proof/pictures"]).require()
