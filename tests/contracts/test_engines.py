"""Every engine that is listed starts programs in the same way.

A host proves the engines that it has. ``singularity`` is SingularityCE in ``make singularityce``;
elsewhere it may be a link to Apptainer, as on many clusters, which takes the same commands.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from lumicontainer import constants
from lumicontainer.core.model.check import START_MODES
from lumicontainer.engines import ENGINES, Engine, StepMounts
from lumicontainer.errors import HostError

from ..integration.conftest import check_output
from ..programs import run
from .conftest import pack, write_image

PATHS = {name: Path(path) for name in ENGINES if (path := shutil.which(name))}
"""The engines of this host, with the paths of their programs."""
STRANGE = ("two words", "'", '"', "$(id)", "`id`", "", "*", "\\", "a\nb", "%post", "{{ x }}", "é")
"""Words that a shell on the way would change."""
SHOW = 'for word; do printf "%s\\0" "$word"; done'


@pytest.fixture(params=PATHS)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param](PATHS[request.param])


@pytest.fixture(scope="session")
def images(tiny: Path) -> dict[str, Path]:
    """Pack the files once for each compression."""
    kinds = {engine.compression for engine in ENGINES.values()}
    return {each: write_image(tiny, tiny.with_name(f"{each}.sif"), each) for each in kinds}


@pytest.fixture
def image(engine: Engine, images: dict[str, Path]) -> Path:
    """Return an image with the compression that the engine reads."""
    return images[engine.compression]


@pytest.fixture
def mounts(tmp_path: Path) -> StepMounts:
    (tmp_path / "tmp").mkdir(mode=0o1777)
    (tmp_path / "bound").mkdir()
    (tmp_path / "bound/given").write_text("given\n")
    return StepMounts(tmp_path / "tmp", {tmp_path / "bound": "/mnt"})


@pytest.fixture
def tree(tiny: Path, tmp_path: Path) -> Path:
    """Copy the files, for programs that change them."""
    return shutil.copytree(tiny, tmp_path / "tree", symlinks=True)


def test_this_host_has_an_engine() -> None:
    assert PATHS


def test_documents_name_the_engines_that_are_listed() -> None:
    assert tuple(ENGINES) == constants.ENGINES
    assert all(engine.name == name for name, engine in ENGINES.items())


def test_an_image_may_have_the_name_of_an_option(
    engine: Engine, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-x.sif").symlink_to(image)
    monkeypatch.chdir(tmp_path)
    words = engine.execute(Path("-x.sif"), ["sh", "-c", "echo started"], binds=())
    assert check_output(*words) == "started\n"


@pytest.mark.parametrize("way", START_MODES)
def test_words_arrive_as_they_are_in_every_start_mode(
    engine: Engine, image: Path, way: str
) -> None:
    command = ["sh", "-c", SHOW, "sh", *STRANGE]
    printed = check_output(*engine.execute(image, command, binds=(), way=way))
    assert tuple(printed.split("\0")[:-1]) == STRANGE


def test_a_program_runs_as_the_user_and_its_exit_code_is_the_commands(
    engine: Engine, image: Path
) -> None:
    done = run(engine.execute(image, ["sh", "-c", "id -u; exit 7"], binds=()))
    assert (done.stdout, done.returncode) == (f"{os.getuid()}\n", 7)


def test_a_program_sees_binds_and_variables(
    engine: Engine, image: Path, mounts: StepMounts
) -> None:
    binds = [f"{folder}:{place}:ro" for folder, place in mounts.binds.items()]
    script = 'echo "$NAMED"; cat /mnt/given; touch /mnt/changed || echo closed'
    words = engine.execute(image, ["sh", "-c", script], binds=binds, environment={"NAMED": "a b"})
    assert check_output(*words) == "a b\ngiven\nclosed\n"


def as_step(command: Sequence[object]) -> "subprocess.CompletedProcess[str]":
    """Run the command of a step, as a build does: with variables of the host."""
    return run(command, env={"OF_THE_HOST": "x"})


def test_a_step_is_root_in_a_tree_and_changes_only_that(
    engine: Engine, tree: Path, mounts: StepMounts
) -> None:
    script = (
        "id -u; pwd; cat /mnt/given; echo ${OF_THE_HOST-unset}; umask >/opt/made; touch /tmp/kept"
    )
    command = ["sh", "-c", f"{script}; touch /mnt/changed || exit 3"]
    done = as_step(engine.step_in(tree, command, mounts))
    assert (done.stdout, done.returncode) == ("0\n/\ngiven\nunset\n", 3), done.stderr
    assert (tree / "opt/made").read_text() == "0022\n"
    assert (mounts.temporary / "kept").exists()


def test_an_ordinary_user_compiles_as_such_in_a_tree(
    engine: Engine, tiny: Path, ordinary_user: list[object], home: Path
) -> None:
    tree, temporary = home / f"tree-of-{engine.name}", home / f"tmp-of-{engine.name}"
    check_output(*ordinary_user, "cp", "--recursive", "--no-dereference", tiny, tree)
    check_output(*ordinary_user, "mkdir", temporary)
    script = ["sh", "-c", "id -u; id -u >/opt/made"]
    words = engine.compile_in(tree, script, StepMounts(temporary, {}))
    user = check_output(*ordinary_user, "id", "-u")
    assert check_output(*ordinary_user, *words) == user
    assert (tree / "opt/made").read_text() == user


def test_a_step_on_packed_layers_leaves_them_as_they_are(
    engine: Engine, tiny: Path, image: Path, mounts: StepMounts, tmp_path: Path
) -> None:
    """An engine that cannot is used with a tree instead."""
    overlay = tmp_path / "overlay"
    for name in ("upper", "work"):
        (overlay / name).mkdir(parents=True)
    (tmp_path / "above/opt").mkdir(parents=True)
    (tmp_path / "above/opt/above").write_text("above\n")
    above = pack(tmp_path / "above", tmp_path / "above.sqsh", engine.compression)
    script = "id -u; cat /opt/above; rm /usr/bin/ls; touch /opt/made"
    words = engine.step([image, above], overlay, ["sh", "-c", script], mounts)
    assert check_output(*words) == "0\nabove\n"
    assert (overlay / "upper/opt/made").exists()
    check_output(*engine.execute(image, ["ls", "/opt"], binds=()))


def test_a_definition_becomes_a_folder(engine: Engine, image: Path, tmp_path: Path) -> None:
    definition = tmp_path / "base.def"
    definition.write_text(f"Bootstrap: localimage\nFrom: {image}\n%post\n    touch /opt/made\n")
    done = run(engine.bootstrap(definition, tmp_path / "tree"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tree/opt/made").exists()


@pytest.mark.parametrize("name", ["a,b", "a:b"])
def test_a_path_that_options_cannot_hold_is_refused(
    engine: Engine, tree: Path, tmp_path: Path, name: str
) -> None:
    for mounts in (StepMounts(tmp_path / name, {}), StepMounts(tmp_path, {tmp_path / name: "/x"})):
        with pytest.raises(HostError):
            engine.step_in(tree, ["true"], mounts)
