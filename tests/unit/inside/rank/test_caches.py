"""Caches go to the node or to /scratch, into folders that are the user's alone."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lumicontainer.inside.environment import USER, Setting
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.node.hardware import Node
from lumicontainer.inside.rank import caches
from lumicontainer.inside.rank.context import Context, Options

from .. import seen

TABLE = [
    {"name": "MIOPEN_USER_DB_PATH", "folder": "miopen", "storage": "node", "reason": "SQLite"},
    {"name": "AITER_JIT_DIR", "folder": "aiter", "storage": "node"},
    {"name": "TMPDIR", "folder": "tmp", "storage": "node", "reason": "others are in /tmp"},
    {"name": "MIOPEN_CUSTOM_CACHE_DIR", "folder": "miopen", "storage": "job"},
    {"name": "HF_HUB_CACHE", "folder": "huggingface/hub", "storage": "scratch", "reason": "quota"},
    {"name": "HF_HOME", "folder": "huggingface", "storage": "home"},
]
OWN = f"lumi-{os.geteuid()}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    return tmp_path


def context(root: Path, env: Mapping[str, str] | None = None, **options: bool) -> Context:
    env = seen.srun(2) if env is None else env
    platform = {"name": "lumi-g", "caches": TABLE}
    given = Options(**options)
    return Context(env, node=Node(str(root)), platform=platform, options=given)


def decided(found: Context) -> dict[str, Setting]:
    return {setting.name: setting for setting in caches.settings(found)}


def mounted(root: Path, point: Path, kind: str) -> None:
    """Write the kernel's list of mounts: a node's own disk, and ``kind`` on ``point``."""
    folder = root / "proc/self"
    folder.mkdir(parents=True)
    rows = ["1 0 8:1 / / rw - ext4 /dev/a rw", f"2 1 0:9 / {point} rw,nosuid - {kind} srv rw"]
    (folder / "mountinfo").write_text("\n".join(rows) + "\n")


def test_caches_lie_in_one_folder_of_the_job_on_the_node(root: Path) -> None:
    found = decided(context(root))
    home = f"{root}/tmp/{OWN}-1.0"
    assert found["MIOPEN_USER_DB_PATH"].value == f"{home}/miopen"
    assert found["TMPDIR"].value == f"{home}/tmp"
    assert found["TMPDIR"].origin == "lumi-g"
    assert found["TMPDIR"].why == f"others are in /tmp; on the node, in {root}/tmp"
    assert found["AITER_JIT_DIR"].value == f"{home}/aiter-2"
    assert list((root / "tmp").iterdir()) == []


def test_the_steps_of_a_job_share_a_folder(root: Path) -> None:
    found = context(root)
    assert decided(found)["MIOPEN_CUSTOM_CACHE_DIR"].value == f"{root}/tmp/{OWN}-1/miopen"
    caches.make(found)
    assert (root / f"tmp/{OWN}-1").stat().st_mode & 0o7777 == 0o700
    assert (root / f"tmp/{OWN}-1/miopen").is_dir()
    removed = decided(context(root, remove_caches=True))["MIOPEN_CUSTOM_CACHE_DIR"]
    assert removed.value == f"{root}/tmp/{OWN}-1.0-once/miopen"


def test_the_token_stays_in_the_home_folder_unless_the_user_moves_it(root: Path) -> None:
    env = {**seen.srun(0), "HOME": "/users/me"}
    assert decided(context(root, env))["HF_HOME"].value == "/users/me/.cache/huggingface"
    moved = decided(context(root, {**env, "XDG_CACHE_HOME": "/scratch/mine"}))["HF_HOME"]
    assert (moved.value, moved.origin) == (None, USER)
    assert decided(context(root, {}))["HF_HOME"].value is None


def test_the_folders_are_made_for_the_user_alone_whatever_the_umask(root: Path) -> None:
    found = context(root)
    settings = decided(found)
    umask = os.umask(0o777)
    try:
        caches.open_private(f"{root}/tmp/closed")
    finally:
        os.umask(umask)
    caches.make(found)
    for folder in (root / "tmp/closed", root / f"tmp/{OWN}-1.0"):
        assert folder.stat().st_mode & 0o7777 == 0o700
    for name in ("MIOPEN_USER_DB_PATH", "AITER_JIT_DIR", "TMPDIR"):
        assert Path(settings[name].value or "").is_dir()


def test_what_the_user_set_is_left_alone_and_not_made(root: Path) -> None:
    env = {**seen.srun(0), "MIOPEN_USER_DB_PATH": f"{root}/mine"}
    found = context(root, env)
    setting = decided(found)["MIOPEN_USER_DB_PATH"]
    caches.make(found)
    assert (setting.value, setting.origin) == (f"{root}/mine", USER)
    assert not (root / "mine").exists()
    assert not (root / f"tmp/{OWN}-1.0/miopen").exists()


def test_a_tmpdir_on_the_node_is_taken_in_place_of_tmp(root: Path) -> None:
    local = root / "job.1"
    local.mkdir(mode=0o700)
    found = decided(context(root, {**seen.srun(0), "TMPDIR": str(local)}))
    assert found["MIOPEN_USER_DB_PATH"].value == f"{local}/{OWN}-1.0/miopen"
    assert found["TMPDIR"].origin == USER


@pytest.mark.parametrize("kind", ["lustre", "nfs4", "fuse.sshfs"])
def test_a_tmpdir_that_nodes_share_is_not_taken(root: Path, kind: str) -> None:
    shared = root / "shared"
    shared.mkdir(mode=0o700)
    mounted(root, shared, kind)
    found = decided(context(root, {**seen.srun(0), "TMPDIR": str(shared)}))
    setting = found["MIOPEN_USER_DB_PATH"]
    assert setting.value == f"{root}/tmp/{OWN}-1.0/miopen"
    assert f"{shared}: it is on {kind}, which nodes share" in setting.why


def test_the_mount_that_lies_on_top_decides_the_file_system(root: Path) -> None:
    mounted(root, root / "with\\040blank", "tmpfs")
    assert caches.file_system(str(root / "with blank/x"), Node(str(root))) == "tmpfs"
    assert caches.file_system(str(root / "with blanks"), Node(str(root))) == "ext4"
    assert caches.file_system("/", Node(str(root / "tmp"))) == ""


def _plant(kind: str, place: Path) -> None:
    if kind == "link":
        place.parent.joinpath("elsewhere").mkdir(mode=0o700)
        place.symlink_to(place.parent / "elsewhere")
    elif kind == "file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o750)


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_a_name_that_was_planted_is_left_and_all_ranks_take_the_next(root: Path, kind: str) -> None:
    place = root / f"tmp/{OWN}-1.0"
    _plant(kind, place)
    before = place.lstat().st_mode
    for rank in (0, 1, 2):
        found = context(root, seen.srun(rank))
        assert decided(found)["TMPDIR"].value == f"{place}-1/tmp"
        caches.make(found)
    assert place.lstat().st_mode == before
    if kind == "link":
        assert list((root / "tmp/elsewhere").iterdir()) == []


def test_a_folder_of_somebody_else_is_not_the_user_s() -> None:
    def folder(owner: int) -> os.stat_result:
        return os.stat_result((0o40700, 1, 1, 2, owner, owner, 4096, 0, 0, 0))

    assert caches.is_private(folder(os.geteuid()))
    assert not caches.is_private(folder(os.geteuid() + 1))


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_what_is_planted_after_the_look_is_refused(root: Path, kind: str) -> None:
    found = context(root)
    decided(found)
    _plant(kind, root / f"tmp/{OWN}-1.0")
    with pytest.raises(LaunchError, match="cannot create a folder for caches") as caught:
        caches.make(found)
    assert caught.value.code == 3


def test_where_every_name_is_taken_caches_stay_with_a_warning(root: Path) -> None:
    for suffix in ("", *(f"-{number}" for number in range(1, caches.NAMES))):
        (root / f"tmp/{OWN}-1.0{suffix}").write_text("")
    found = context(root)
    assert decided(found)["TMPDIR"].value is None
    assert len(found.warnings) == 1
    assert "other users have taken every name" in found.warnings[0]


def test_a_tmp_where_others_may_rename_is_not_taken(root: Path) -> None:
    (root / "tmp").chmod(0o777)
    found = context(root)
    assert decided(found)["TMPDIR"].value is None
    assert "other users may rename" in found.warnings[0]


@pytest.mark.parametrize(
    ("env", "options", "name"),
    [
        ({**seen.srun(0), "TMPDIR": "/tmp"}, {}, f"{OWN}-1.0"),
        (seen.srun(1), {}, f"{OWN}-1.0"),
        ({}, {}, OWN),
        ({}, {"remove_caches": True}, f"{OWN}-once"),
    ],
    ids=["Slurm's own TMPDIR", "a later task", "off a cluster", "to be removed"],
)
def test_the_folder_has_the_name_of_its_run(
    root: Path, env: dict[str, str], options: dict[str, bool], name: str
) -> None:
    assert decided(context(root, env, **options))["TMPDIR"].value == f"{root}/tmp/{name}/tmp"


def test_off_a_cluster_tmp_is_the_user_s_choice(root: Path) -> None:
    assert decided(context(root, {"TMPDIR": "/tmp"}))["TMPDIR"].origin == USER


def test_downloads_go_to_the_project_s_scratch(root: Path) -> None:
    (root / "scratch/project_1").mkdir(parents=True)
    env = {**seen.srun(0), "SLURM_JOB_ACCOUNT": "project_1", "USER": "ada"}
    setting = decided(context(root, env))["HF_HUB_CACHE"]
    assert setting.value == f"{root}/scratch/project_1/ada/huggingface/hub"
    assert list((root / "scratch/project_1").iterdir()) == []


@pytest.mark.parametrize("above", ["HF_HOME", "XDG_CACHE_HOME"])
def test_what_follows_a_variable_that_the_user_set_is_left_alone(root: Path, above: str) -> None:
    (root / "scratch/project_1").mkdir(parents=True)
    env = {**seen.srun(0), "SLURM_JOB_ACCOUNT": "project_1", "USER": "ada", above: "/mine"}
    setting = decided(context(root, env))["HF_HUB_CACHE"]
    assert (setting.value, setting.why) == (None, f"derived from {above}, which is set")


@pytest.mark.parametrize(
    ("account", "reason"),
    [
        ("", "SLURM_JOB_ACCOUNT is not set"),
        ("project_9", "project_9 is not writable"),
        ("../x", "are not names of folders"),
    ],
)
def test_without_a_project_downloads_stay_where_they_are(
    root: Path, account: str, reason: str
) -> None:
    (root / "scratch/project_1").mkdir(parents=True)
    setting = decided(context(root, {**seen.srun(0), "SLURM_JOB_ACCOUNT": account}))["HF_HUB_CACHE"]
    assert setting.value is None
    assert reason in setting.why
