"""Every runtime that is listed runs the programs of a build in the same way."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lumicontainer.cache.objects import INDEX
from lumicontainer.sandbox.runtimes import RUNTIMES
from lumicontainer.sandbox.tree.index import FILE, GONE, Row, read_index

from ..integration.conftest import started
from ..namespaces import ordinary
from ..programs import run
from .conftest import write_image

SANDBOXED = Path(__file__).with_name("sandboxed.py")
CHANGES = """\
set -e
touch /opt/owned /opt/closed
chown 7:8 /opt/owned
chmod 0600 /opt/closed
rm /usr/bin/pwd
"""


class Sandbox(NamedTuple):
    """Hold a tree in which a runtime runs programs."""

    runtime: str
    folder: Path
    env: dict[str, str]

    def run(self, action: str, *words: object) -> "subprocess.CompletedProcess[str]":
        """Do one thing by the runtime; PRoot is for ordinary users only."""
        user = (*ordinary(), "env", "USER=builder") if self.runtime == "proot" else ()
        return run(
            [*user, sys.executable, SANDBOXED, self.runtime, self.folder, action, *words],
            env=self.env,
        )

    def succeed(self, action: str, *words: object) -> str:
        done = self.run(action, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def capture(self, name: str) -> dict[str, Row]:
        """Return the index of a layer of what has changed."""
        self.succeed("capture", name)
        return read_index(self.folder / "drafts" / name / INDEX)


@pytest.fixture(params=RUNTIMES, scope="module")
def sandbox(
    request: pytest.FixtureRequest, tiny: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """Prepare one tree for each runtime: what a test leaves there disturbs no other."""
    env = started("docker") if request.param == "docker" else {}
    sandbox = Sandbox(request.param, tmp_path_factory.mktemp(request.param), env)
    sandbox.succeed("prepare", tiny)
    yield sandbox
    sandbox.succeed("remove")


def test_a_runtime_is_named_as_it_is_listed() -> None:
    assert [each.name for each in RUNTIMES.values()] == [*RUNTIMES]


def test_a_program_is_root_and_its_changes_become_a_layer(sandbox: Sandbox) -> None:
    sandbox.capture("base")
    assert sandbox.succeed("step", f"id -u; {CHANGES}") == "0\n"
    layer = sandbox.capture("changes")
    kept = {path: row[:4] for path, row in layer.items() if row.kind in (FILE, GONE)}
    assert kept == {
        "opt/owned": (FILE, 0o644, 7, 8),
        "opt/closed": (FILE, 0o600, 0, 0),
        "usr/bin/pwd": (GONE, 0, 0, 0),
    }


def test_a_program_sees_what_it_is_shown(sandbox: Sandbox) -> None:
    (sandbox.folder / "bound/given").write_text("given\n")
    (sandbox.folder / "outside").touch()
    script = f"cat /mnt/given; pwd; echo kept >/tmp/result; ls {sandbox.folder}/outside; exit 3"
    done = sandbox.run("step", script)
    assert (done.returncode, done.stdout) == (3, "given\n/\n"), done.stderr
    assert (sandbox.folder / "tmp/result").read_text() == "kept\n"


def test_a_program_cannot_change_what_it_is_shown(sandbox: Sandbox) -> None:
    if sandbox.runtime == "proot":
        return  # PRoot shows folders as they are: the user may change what the user owns.
    sandbox.succeed("step", "! touch /mnt/changed")
    assert not (sandbox.folder / "bound/changed").exists()


def test_variables_and_the_mask_of_the_host_do_not_reach_a_program(sandbox: Sandbox) -> None:
    foreign = {**sandbox.env, "OF_THE_HOST": "x", "APPTAINERENV_OF_THE_HOST": "x"}
    before = os.umask(0o077)
    try:
        text = sandbox._replace(env=foreign).succeed("step", "umask; env")
    finally:
        os.umask(before)
    mask, *variables = text.splitlines()
    assert mask == "0022"
    assert not [each for each in variables if "OF_THE_HOST" in each]


def test_a_check_runs_in_the_image_as_the_user(sandbox: Sandbox, tiny: Path) -> None:
    image = write_image(tiny, sandbox.folder / "image.sif", "gzip")
    text = sandbox.succeed("check", image, "sh", "-c", "id -u; echo $SET")
    user = 12345 if sandbox.runtime == "proot" and os.getuid() == 0 else os.getuid()
    assert text == f"{user}\nby the check\n"
