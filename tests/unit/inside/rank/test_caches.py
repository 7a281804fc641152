"""Caches go to the node or to /scratch, into folders that are the user's alone."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from lumicontainer.inside.environment import USER, Setting
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank import caches
from lumicontainer.inside.rank.context import Context, Options

from .. import seen
from ..conftest import Env
from .conftest import World

TABLE = [
    {"name": "MIOPEN_USER_DB_PATH", "folder": "miopen", "storage": "node", "reason": "SQLite"},
    {"name": "AITER_JIT_DIR", "folder": "aiter", "storage": "node"},
    {"name": "TMPDIR", "folder": "tmp", "storage": "node", "reason": "others are in /tmp"},
    {"name": "MIOPEN_CUSTOM_CACHE_DIR", "folder": "miopen", "storage": "job"},
    {"name": "HF_HUB_CACHE", "folder": "huggingface/hub", "storage": "scratch", "reason": "quota"},
    {"name": "HF_TOKEN_PATH", "folder": "huggingface/token", "storage": "home"},
]
OWN = f"lumi-{os.geteuid()}"
TASK = seen.srun(2)

Change = Callable[[Path], object]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    return tmp_path


def context(root: Path, env: Mapping[str, str] = TASK, **options: bool) -> Context:
    platform = {"name": "lumi-g", "caches": TABLE}
    return Context(env, node=Node(str(root)), platform=platform, options=Options(**options))


def decided(rank: Context) -> dict[str, Setting]:
    return {setting.name: setting for setting in caches.settings(rank)}


def mounted(root: Path, point: Path, kind: str) -> None:
    """Write the kernel's list of mounts: a node's own disk, and ``kind`` on ``point``."""
    folder = root / "proc/self"
    folder.mkdir(parents=True)
    rows = ["1 0 8:1 / / rw - ext4 /dev/a rw", f"2 1 0:9 / {point} rw,nosuid - {kind} srv rw"]
    (folder / "mountinfo").write_text("\n".join(rows) + "\n")


def test_caches_lie_in_one_folder_of_the_job_on_the_node(root: Path) -> None:
    settings = decided(context(root))
    home = f"{root}/tmp/{OWN}-1.0"
    assert settings["MIOPEN_USER_DB_PATH"].value == f"{home}/miopen"
    assert settings["AITER_JIT_DIR"].value == f"{home}/aiter-2"
    why = f"others are in /tmp; on the node, in {root}/tmp"
    assert settings["TMPDIR"] == Setting("TMPDIR", f"{home}/tmp", "lumi-g", why)
    assert list((root / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("env", "name", "removed"),
    [
        pytest.param(TASK, "-1.0", "-1.0-once", id="a task"),
        pytest.param({**seen.srun(0), "TMPDIR": "/tmp"}, "-1.0", "-1.0-once", id="Slurm's TMPDIR"),
        pytest.param(seen.TORCHRUN_IN_SRUN, "-1.0", "-1.0-once", id="a rank of torchrun in a step"),
        pytest.param(
            {**seen.TORCHRUN_IN_SRUN, **seen.INTERACTIVE},
            "-1",
            "-1-once",
            id="a rank of torchrun in the job's shell",
        ),
        pytest.param({}, "", "-once", id="off a cluster"),
    ],
)
def test_the_folder_has_the_name_of_its_run(root: Path, env: Env, name: str, removed: str) -> None:
    for remove, folder in ((False, name), (True, removed)):
        value = decided(context(root, env, remove_caches=remove))["TMPDIR"].value
        assert value == f"{root}/tmp/{OWN}{folder}/tmp"


def test_the_steps_of_a_job_share_a_folder_unless_each_removes_its_own(root: Path) -> None:
    name = "MIOPEN_CUSTOM_CACHE_DIR"
    assert decided(context(root))[name].value == f"{root}/tmp/{OWN}-1/miopen"
    removed = decided(context(root, remove_caches=True))[name]
    assert removed.value == f"{root}/tmp/{OWN}-1.0-once/miopen"


@pytest.mark.parametrize("above", ["HF_HOME", "XDG_CACHE_HOME"])
def test_the_token_stays_in_the_home_folder_unless_the_user_moves_it(
    root: Path, above: str
) -> None:
    env = {**TASK, "HOME": "/users/me"}
    assert (
        decided(context(root, env))["HF_TOKEN_PATH"].value == "/users/me/.cache/huggingface/token"
    )
    moved = decided(context(root, {**env, above: "/scratch/mine"}))["HF_TOKEN_PATH"]
    assert (moved.value, moved.origin) == (None, USER)
    assert decided(context(root, {}))["HF_TOKEN_PATH"].value is None


def test_on_lumi_g_only_the_token_of_hugging_face_stays_in_the_home_folder(lumi: World) -> None:
    (lumi.root / "scratch/project_1").mkdir(parents=True)
    home = {"HOME": "/users/ada", "USER": "ada"}
    settings = lumi.settings({**TASK, **home, "SLURM_JOB_ACCOUNT": "project_1"})
    # Of HF_HOME, libraries derive the folders of models, data sets, their code and assets.
    assert settings["HF_HOME"].value == f"{lumi.root}/scratch/project_1/ada/huggingface"
    assert settings["HF_TOKEN_PATH"].value == "/users/ada/.cache/huggingface/token"


def test_the_folders_are_made_for_the_user_alone_whatever_the_umask(root: Path) -> None:
    rank = context(root)
    made = decided(rank)
    umask = os.umask(0o777)
    try:
        caches.open_private(f"{root}/tmp/closed")
    finally:
        os.umask(umask)
    caches.make(rank)
    for name in ("closed", f"{OWN}-1.0", f"{OWN}-1"):
        assert (root / "tmp" / name).stat().st_mode & 0o7777 == 0o700
    for name in ("MIOPEN_USER_DB_PATH", "AITER_JIT_DIR", "TMPDIR", "MIOPEN_CUSTOM_CACHE_DIR"):
        assert Path(made[name].value or "").is_dir()


def test_what_the_user_set_is_left_alone_and_not_made(root: Path) -> None:
    rank = context(root, {**TASK, "MIOPEN_USER_DB_PATH": f"{root}/mine"})
    setting = decided(rank)["MIOPEN_USER_DB_PATH"]
    caches.make(rank)
    assert (setting.value, setting.origin) == (f"{root}/mine", USER)
    assert not (root / "mine").exists()
    assert not (root / f"tmp/{OWN}-1.0/miopen").exists()


@pytest.mark.parametrize("kind", ["tmpfs", "lustre", "nfs4", "fuse.sshfs"])
def test_a_tmpdir_is_taken_in_place_of_tmp_unless_nodes_share_it(root: Path, kind: str) -> None:
    own = root / "job.1"
    own.mkdir(mode=0o700)
    mounted(root, own, kind)
    settings = decided(context(root, {**TASK, "TMPDIR": str(own)}))
    setting = settings["MIOPEN_USER_DB_PATH"]
    shared = kind != "tmpfs"
    assert setting.value == f"{root / 'tmp' if shared else own}/{OWN}-1.0/miopen"
    assert (f"{own}: it is on {kind}, which nodes share" in setting.why) == shared
    assert settings["TMPDIR"].origin == USER


def test_a_tmpdir_that_the_container_does_not_have_is_replaced_with_a_warning(root: Path) -> None:
    missing = f"{root}/local/1"
    rank = context(root, {**TASK, "TMPDIR": missing})
    setting = decided(rank)["TMPDIR"]
    assert (setting.value, setting.origin) == (f"{root}/tmp/{OWN}-1.0/tmp", "lumi-g")
    reason = f"TMPDIR={missing} is not a folder in the container"
    assert rank.warnings == [f"{reason} (bind it, or unset TMPDIR)"]


def test_off_a_cluster_tmp_is_the_user_s_choice(root: Path) -> None:
    assert decided(context(root, {"TMPDIR": "/tmp"}))["TMPDIR"].origin == USER


def test_the_mount_that_lies_on_top_decides_the_file_system(root: Path) -> None:
    mounted(root, root / "with\\040blank", "tmpfs")
    assert caches.file_system(str(root / "with blank/x"), Node(str(root))) == "tmpfs"
    assert caches.file_system(str(root / "with blanks"), Node(str(root))) == "ext4"
    assert caches.file_system("/", Node(str(root / "tmp"))) == ""


def _link(place: Path) -> None:
    place.with_name("elsewhere").mkdir(mode=0o700)
    place.symlink_to("elsewhere")


def _open_to_others(place: Path) -> None:
    place.mkdir()
    place.chmod(0o750)


PLANTED = pytest.mark.parametrize("plant", [_link, Path.touch, _open_to_others])


@PLANTED
def test_a_name_that_was_planted_is_left_and_ranks_take_the_next(root: Path, plant: Change) -> None:
    place = root / f"tmp/{OWN}-1.0"
    plant(place)
    before = place.lstat().st_mode
    for rank in (0, 1, 2):
        node_rank = context(root, seen.srun(rank))
        assert decided(node_rank)["TMPDIR"].value == f"{place}-1/tmp"
        caches.make(node_rank)
    assert place.lstat().st_mode == before
    assert not list((root / "tmp").glob("elsewhere/*"))


@PLANTED
def test_what_is_planted_after_the_look_is_refused(root: Path, plant: Change) -> None:
    rank = context(root)
    decided(rank)
    plant(root / f"tmp/{OWN}-1.0")
    with pytest.raises(LaunchError, match="cannot create a folder for caches") as caught:
        caches.make(rank)
    assert caught.value.code == 3


def test_a_folder_of_somebody_else_is_not_the_user_s() -> None:
    def folder(owner: int) -> os.stat_result:
        return os.stat_result((0o40700, 1, 1, 2, owner, owner, 4096, 0, 0, 0))

    assert caches.is_private(folder(os.geteuid()))
    assert not caches.is_private(folder(os.geteuid() + 1))


def _take_every_name(tmp: Path) -> None:
    for suffix in ("", *(f"-{number}" for number in range(1, caches.NAMES))):
        (tmp / f"{OWN}-1.0{suffix}").touch()


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_take_every_name, "other users have taken every name"),
        (lambda tmp: tmp.chmod(0o777), "other users may rename"),
        (Path.rmdir, "No such file or directory"),
    ],
)
def test_without_a_safe_folder_there_is_a_warning(root: Path, spoil: Change, reason: str) -> None:
    spoil(root / "tmp")
    rank = context(root)
    assert decided(rank)["TMPDIR"].value is None
    (warning,) = rank.warnings
    assert reason in warning


def test_downloads_go_to_the_project_s_scratch(root: Path) -> None:
    project = root / "scratch/project_1"
    project.mkdir(parents=True)
    env = {**TASK, "SLURM_JOB_ACCOUNT": "project_1", "USER": "ada"}
    value = decided(context(root, env))["HF_HUB_CACHE"].value
    assert value == f"{project}/ada/huggingface/hub"
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"SLURM_JOB_ACCOUNT": "project_1", "HF_HOME": "/mine"}, "derived from HF_HOME, which is"),
        ({"SLURM_JOB_ACCOUNT": "project_1", "XDG_CACHE_HOME": "/mine"}, "from XDG_CACHE_HOME"),
        ({}, "SLURM_JOB_ACCOUNT is not set"),
        ({"SLURM_JOB_ACCOUNT": "project_9"}, "project_9 is not writable"),
        ({"SLURM_JOB_ACCOUNT": "../x"}, "are not names of folders"),
    ],
)
def test_otherwise_downloads_stay_where_they_are(root: Path, env: Env, reason: str) -> None:
    (root / "scratch/project_1").mkdir(parents=True)
    setting = decided(context(root, {**TASK, **env}))["HF_HUB_CACHE"]
    assert setting.value is None
    assert reason in setting.why


def test_no_cache_lies_where_its_code_could_not_be_loaded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    folder, why = caches.base(context(root))
    assert folder == ""
    assert why.endswith("(it is mounted with noexec)")
