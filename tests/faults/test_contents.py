"""Images with forbidden content, without promised content, or changed after the build."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lumicontainer.inside.checking import DUE_PATHS

from .breaking import HOME, SITE, Broken, caught, holds, read

# None of these opens anything: they only have the forms of what does.
KEY = f"-----BEGIN {'OPENSSH'} PRIVATE KEY-----\n{'bm90IGEga2V5' * 6}\n-----END"
GITHUB = "ghp_" + "Ab1" * 12
AMAZON = "AKIA" + "QWERTYUIOPASDFGH"
HUGGING_FACE = "hf_" + "aB" * 17
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{'bm90IG9uZSB0aGF0' * 4}\n-----END CERTIFICATE-----\n"


class Fault(NamedTuple):
    """Hold a file that may not be in an image, and what is said of it."""

    path: str
    said: str
    content: str = "a"
    mode: int = 0o644


LEFT = "a secret is left"
OF_APT = "what apt fetched is left"
OF_PIP = "a configuration of the site's pip"
OF_BUILD = "a folder of the build is left"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
INDEX = "[global]\nindex-url = https://i\n"
WHEEL = '{"url": "file:///home/me/wheels/horovod.whl", "archive_info": {}}'
PROXY = 'Acquire::http::Proxy "http://proxy.example:3128";\n'
OPTIONS = (
    "--env",
    "LUMI_VERIFY_HOST_PATHS=/srv/builds:/srv/others",
    "--no-mount",
    "tmp",
    "--no-home",
)
FILES = (
    Fault("/opt/own/deploy.pem", "a private key is left", KEY),
    Fault("/etc/skel/.ssh/id_ed25519", LEFT),
    Fault("/opt/own/fetch.sh", "a token of GitHub's is left", f"curl -H 'token {GITHUB}'\n"),
    Fault("/etc/rclone.conf", "a key of Amazon's is left", f"access_key_id = {AMAZON}\n"),
    Fault("/etc/profile.d/token.sh", "a token of Hugging Face's", f"HF_TOKEN={HUGGING_FACE}\n"),
    Fault("/etc/work.ini", "an address with a password", "index = https://me:secret@a.example/\n"),
    Fault("/opt/own/.netrc", LEFT, "machine example login a password b\n"),
    Fault("/usr/local/bin/root-me", "becomes another user", mode=0o4755),
    Fault("/opt/own/group-me", "becomes another user or group", mode=0o2755),
    Fault("/etc/motd", "anybody may write to it", mode=0o666),
    Fault("/opt/own/model.py", "only some users can read it", mode=0o600),
    Fault("/var/lib/apt/lists/Packages", OF_APT),
    Fault("/var/cache/apt/archives/a.deb", OF_APT),
    Fault(f"/{HOME}/.stage/layer/a.c", OF_BUILD),
    Fault("/etc/pip.conf", OF_PIP, INDEX),
    Fault("/opt/venv/pip.conf", "/opt/venv/pip.conf", INDEX),
    Fault("/etc/apt/apt.conf.d/80proxy", "a proxy or authority of the site's apt is left", PROXY),
    Fault("/etc/apt/sources.list", "not the distribution's own", "deb http://m.example/d a b\n"),
    Fault("/usr/local/share/ca-certificates/site.crt", "certificate of the host", CERTIFICATE),
    Fault(CERTIFICATES, "1 certificate of the host's is left", CERTIFICATE),
    Fault(f"{SITE}/horovod-0.28.1.dist-info/direct_url.json", "file:///home/me/wheels", WHEEL),
    Fault("/opt/own/log", "it names /srv/builds, a folder of the machine", "in /srv/builds/me\n"),
    Fault("/tmp/cc1.o", OF_BUILD),
    Fault("/root/.cache/pip/http/a", "a cache is left"),
)


@pytest.fixture(scope="module")
def faulty(image: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the check says of an image with all of these faults: it walks it once."""
    broken = Broken(tmp_path_factory.mktemp("faulty") / "over")
    broken.folder_with("/opt/shared", 0o777).option(*OPTIONS)
    for fault in FILES:
        broken.write(fault.path, fault.content, fault.mode)
    return broken.verify(image, "image/files")


def test_each_file_that_may_not_be_in_an_image_is_named(faulty: dict[str, Any]) -> None:
    assert faulty["state"] == "failed"
    lines = faulty["output"].splitlines()
    folder = Fault("/opt/shared", "anybody may write to it")
    for fault in (*FILES, folder):
        path = "horovod" if fault.content == WHEEL else fault.path
        assert any(fault.said in line and path in line for line in lines), fault


def test_only_the_paths_that_are_due_are_judged(image: Path, broken: Broken) -> None:
    broken.write("/opt/own/old.pem", KEY).write("/opt/own/new.conf", "a = 1\n")
    due = broken.env(DUE_PATHS, "/:/opt/own:/opt/own/new.conf:/tmp:/proc/1").option("--containall")
    row = due.verify(image, "image/files")
    holds(row)
    assert "2 new paths are clean" in row["output"]
    for named in ("/opt/own/old.pem", ""):
        caught(broken.env(DUE_PATHS, named).verify(image, "image/files"), "a private key")


def test_files_that_only_look_dangerous_are_let_be(image: Path, broken: Broken) -> None:
    broken.write("/opt/own/example.conf", "key = AKIAIOSFODNN7EXAMPLE\n")
    broken.write("/opt/own/read.py", 'BEGIN = "-----BEGIN PRIVATE KEY-----"\n')
    broken.write("/opt/own/.netrc", "")
    broken.folder_with("/opt/drop", 0o1777)
    holds(broken.verify(image, "image/files"))


def test_modes_that_the_makers_of_a_base_chose_are_said_and_let_be(
    image: Path, broken: Broken
) -> None:
    broken.write("/.singularity.d/base-modes.txt", "/opt/theirs\n")
    broken.folder_with("/opt/theirs", 0o750)
    row = broken.verify(image, "image/files")
    holds(row)
    assert row["facts"]["of the base image"] == ["only some users can read it: /opt/theirs"]


def test_what_engines_mount_over_the_image_counts_as_unseen(image: Path, broken: Broken) -> None:
    row = broken.option("--containall").verify(image, "image/files")
    holds(row)
    assert "/tmp" in row["facts"]["hidden by mounts"]


@pytest.mark.parametrize(
    ("layer", "kind", "package", "words"),
    [
        ("pytorch", "python", "torch==2.14.0", "promises torch 2.14.0"),
        ("horovod", "python", "petastorm", "petastorm, and it is not"),
        ("mpich", "apt", "hwloc-nox", "hwloc-nox, and it is not installed"),
        ("python", "apt", "make=4.4-1", "promises make 4.4-1, and 4.3"),
    ],
)
def test_what_the_recipe_promises_and_the_image_does_not_have_is_named(
    image: Path, broken: Broken, layer: str, kind: str, package: str, words: str
) -> None:
    with broken.record(image) as record:
        record["layers"][layer].setdefault("packages", {}).setdefault(kind, []).append(package)
    caught(broken.verify(image, "image/packages"), f"the layer {layer}", words)


def test_a_package_that_another_hides_is_named(image: Path, broken: Broken, tmp_path: Path) -> None:
    hiding = tmp_path / "mine/numpy-1.26.4.dist-info"
    hiding.mkdir(parents=True)
    (hiding / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.4\n")
    broken.option("--bind", f"{tmp_path / 'mine'}:/mnt").env("PYTHONPATH", "/mnt")
    caught(broken.verify(image, "image/packages"), "numpy", "is 1.26.4 now")


def test_a_wheel_whose_library_is_cut_short_is_named(image: Path, broken: Broken) -> None:
    path = f"{SITE}/torch/lib/libtorch_python.so"
    row = broken.write(path, b"\x7fELF and no more").verify(image, "image/packages")
    caught(row, path, "torch", "has 16 bytes, not")


def test_a_wheel_whose_module_is_gone_is_named(image: Path, broken: Broken) -> None:
    row = broken.empty(f"{SITE}/deepspeed/runtime").verify(image, "image/packages")
    caught(row, f"{SITE}/deepspeed/runtime/", "more files of the Python package deepspeed")


def test_a_module_that_cannot_be_imported_is_named(image: Path, broken: Broken) -> None:
    broken.write(f"{SITE}/einops/__init__.py", "import nothing_of_that_name\n")
    row = broken.verify(image, "image/imports")
    caught(row, "einops of einops", "No module named 'nothing_of_that_name'")


@pytest.mark.parametrize(
    "name", ["recipe.yaml", "resolved.json", "checks/python/environment.sh", "bin/lumi-entry"]
)
def test_a_record_that_is_another_s_is_named(image: Path, broken: Broken, name: str) -> None:
    content = read(image, f"/{HOME}/{name}") + b"\n"
    row = broken.write(f"/{HOME}/{name}", content, 0o755).verify(image, "image/record")
    caught(row, f"/{HOME}/{name} is not what was sealed in the image")


def test_a_check_that_was_added_is_named(image: Path, broken: Broken) -> None:
    row = broken.write(f"/{HOME}/checks/image/own.sh", "true\n").verify(image, "image/record")
    caught(row, f"/{HOME}/checks/image/own.sh was added")
