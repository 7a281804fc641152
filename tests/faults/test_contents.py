"""An image that holds what it may not, lacks what it promised, or was changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .breaking import HOME, SITE, Broken, caught, holds, read

# None of these opens anything: they only have the forms of what does.
KEY = f"-----BEGIN {'OPENSSH'} PRIVATE KEY-----\n{'bm90IGEga2V5' * 6}\n-----END"
GITHUB = "ghp_" + "Ab1" * 12
AMAZON = "AKIA" + "QWERTYUIOPASDFGH"
HUGGING_FACE = "hf_" + "aB" * 17
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{'bm90IG9uZSB0aGF0' * 4}\n-----END CERTIFICATE-----\n"

FILES: dict[str, tuple[Callable[[Broken], Broken], str, str]] = {
    "a private key": (
        lambda image: image.write("/opt/own/deploy.pem", KEY),
        "a private key is left",
        "/opt/own/deploy.pem",
    ),
    "a key by its name": (
        lambda image: image.write("/etc/skel/.ssh/id_ed25519", "whatever\n"),
        "a secret is left",
        "/etc/skel/.ssh/id_ed25519",
    ),
    "a token of GitHub's in a script": (
        lambda image: image.write("/opt/own/fetch.sh", f"curl -H 'token {GITHUB}'\n"),
        "a token of GitHub's is left",
        "/opt/own/fetch.sh",
    ),
    "a key of Amazon's in a configuration": (
        lambda image: image.write("/etc/rclone.conf", f"access_key_id = {AMAZON}\n"),
        "a key of Amazon's is left",
        "/etc/rclone.conf",
    ),
    "a token of Hugging Face's": (
        lambda image: image.write("/etc/profile.d/token.sh", f"export HF_TOKEN={HUGGING_FACE}\n"),
        "a token of Hugging Face's is left",
        "/etc/profile.d/token.sh",
    ),
    "a password in an address": (
        lambda image: image.write("/etc/work.ini", "index = https://me:secret@index.example/\n"),
        "an address with a password is left",
        "/etc/work.ini",
    ),
    "passwords for hosts": (
        lambda image: image.write("/opt/own/.netrc", "machine example login a password b\n"),
        "a secret is left",
        "/opt/own/.netrc",
    ),
    "a setuid program": (
        lambda image: image.write("/usr/local/bin/root-me", "#!/bin/sh\n", 0o4755),
        "becomes another user",
        "/usr/local/bin/root-me",
    ),
    "a setgid program": (
        lambda image: image.write("/opt/own/group-me", "#!/bin/sh\n", 0o2755),
        "becomes another user or group",
        "/opt/own/group-me",
    ),
    "a file that anybody may write": (
        lambda image: image.write("/etc/motd", "hello\n", 0o666),
        "anybody may write to it",
        "/etc/motd",
    ),
    "a folder that anybody may write": (
        lambda image: image.folder_with("/opt/shared", 0o777),
        "anybody may write to it",
        "/opt/shared",
    ),
    "what was built with umask 0077": (
        lambda image: image.write("/opt/own/model.py", "pass\n", 0o600),
        "only some users can read it",
        "/opt/own/model.py",
    ),
    "lists of apt": (
        lambda image: image.write("/var/lib/apt/lists/Packages", "Package: a\n"),
        "what apt fetched is left",
        "/var/lib/apt/lists/Packages",
    ),
    "a package that apt fetched": (
        lambda image: image.write("/var/cache/apt/archives/a.deb", "a"),
        "what apt fetched is left",
        "/var/cache/apt/archives/a.deb",
    ),
    "the build's own folder": (
        lambda image: image.write(f"/{HOME}/.stage/layer/a.c", "int a;\n"),
        "a folder of the build is left",
        "/.stage/layer/a.c",
    ),
    "the site's pip configuration": (
        lambda image: image.write("/etc/pip.conf", "[global]\nindex-url = https://index.example\n"),
        "a configuration of the site's pip is left",
        "/etc/pip.conf",
    ),
    "the site's proxy for apt": (
        lambda image: image.write(
            "/etc/apt/apt.conf.d/80proxy", 'Acquire::http::Proxy "http://proxy.example:3128";\n'
        ),
        "a proxy or authority of the site's apt is left",
        "/etc/apt/apt.conf.d/80proxy",
    ),
    "the site's mirror of Debian": (
        lambda image: image.write(
            "/etc/apt/sources.list", "deb http://mirror.example/debian a b\n"
        ),
        "apt's sources are not the distribution's own",
        "/etc/apt/sources.list",
    ),
    "the site's authority": (
        lambda image: image.write("/usr/local/share/ca-certificates/site.crt", CERTIFICATE),
        "a certificate of the host is left",
        "/usr/local/share/ca-certificates/site.crt",
    ),
    "a host's authority among the trusted ones": (
        lambda image: image.write("/etc/ssl/certs/ca-certificates.crt", CERTIFICATE),
        "1 certificate of the host's is left",
        "/etc/ssl/certs/ca-certificates.crt",
    ),
    "a wheel that came from a folder of the build": (
        lambda image: image.write(
            f"{SITE}/horovod-0.28.1.dist-info/direct_url.json",
            '{"url": "file:///home/me/wheels/horovod.whl", "archive_info": {}}',
        ),
        "file:///home/me/wheels/horovod.whl",
        "horovod",
    ),
    "a path of the machine that built it": (
        lambda image: image.write("/opt/own/log", "made in /srv/builds/me\n").env(
            "LUMI_VERIFY_HOST_PATHS", "/srv/builds:/srv/others"
        ),
        "it names /srv/builds, a folder of the machine that built it",
        "/opt/own/log",
    ),
    "temporary files in the image itself": (
        lambda image: image.write("/tmp/cc1.o", "a").option("--no-mount", "tmp"),
        "a folder of the build is left",
        "/tmp/cc1.o",
    ),
    "a cache of pip": (
        lambda image: image.write("/root/.cache/pip/http/a", "a").option("--no-home"),
        "a cache is left",
        "/root/.cache/pip/http/a",
    ),
}


@pytest.fixture(scope="module")
def faulty(image: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the check says of an image with all of these faults: it walks it once."""
    broken = Broken(tmp_path_factory.mktemp("faulty") / "over")
    for plant, *_ in FILES.values():
        plant(broken)
    return broken.verify(image, "image/files")


@pytest.mark.parametrize("fault", FILES)
def test_a_file_that_may_not_be_in_an_image_is_named(faulty: dict[str, Any], fault: str) -> None:
    what, path = FILES[fault][1:]
    assert faulty["state"] == "failed"
    assert any(what in line and path in line for line in faulty["output"].splitlines())


def test_files_that_only_look_dangerous_are_let_be(image: Path, broken: Broken) -> None:
    broken.write("/opt/own/example.conf", "key = AKIAIOSFODNN7EXAMPLE\n")
    broken.write("/opt/own/read.py", 'BEGIN = "-----BEGIN PRIVATE KEY-----"\n')
    broken.write("/opt/own/.netrc", "")
    broken.folder_with("/opt/drop", 0o1777)
    holds(broken.verify(image, "image/files"))


def test_what_engines_mount_over_the_image_is_told_as_unseen(image: Path, broken: Broken) -> None:
    row = broken.option("--containall").verify(image, "image/files")
    holds(row)
    assert "/tmp" in row["told"]["hidden by mounts"]


# What the recipe promised.


def changed_record(image: Path, change: Callable[[dict], None], name: str = "resolved.json") -> str:
    record = json.loads(read(image, f"/{HOME}/{name}"))
    change(record)
    return json.dumps(record)


def promise(layer: str, kind: str, package: str) -> Callable[[dict], None]:
    def change(record: dict) -> None:
        record["layers"][layer].setdefault("packages", {}).setdefault(kind, []).append(package)

    return change


PROMISES = {
    "a version that is not the one": (
        "pytorch",
        "python",
        "torch==2.14.0",
        "promises torch 2.14.0",
    ),
    "a Python package that is missing": (
        "horovod",
        "python",
        "petastorm",
        "petastorm, and it is not",
    ),
    "a package that is missing": (
        "mpich",
        "apt",
        "hwloc-nox",
        "hwloc-nox, and it is not installed",
    ),
    "another version of a package": ("python", "apt", "make=4.4-1", "promises make 4.4-1, and 4.3"),
}


@pytest.mark.parametrize("fault", PROMISES)
def test_what_the_recipe_promises_and_the_image_lacks_is_named(
    image: Path, broken: Broken, fault: str
) -> None:
    layer, kind, package, words = PROMISES[fault]
    text = changed_record(image, promise(layer, kind, package))
    row = broken.write(f"/{HOME}/resolved.json", text).verify(image, "image/packages")
    caught(row, f"the layer {layer}", words)


def test_the_packages_of_the_shipped_image_are_as_promised(image: Path, broken: Broken) -> None:
    layers = json.loads(read(image, f"/{HOME}/resolved.json"))["layers"]
    assert "torch==2.13.0" in layers["pytorch"]["packages"]["python"]
    assert "deepspeed==0.18.2" in layers["deepspeed"]["packages"]["python"]
    holds(broken.verify(image, "image/packages"))


def test_a_package_that_was_taken_away_is_named(image: Path, broken: Broken) -> None:
    row = broken.empty(f"{SITE}/mpi4py-4.1.2.dist-info").verify(image, "image/packages")
    caught(row, "mpi4py")


def test_a_package_that_another_one_hides_is_named(
    image: Path, broken: Broken, tmp_path: Path
) -> None:
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


def test_every_module_of_the_shipped_image_can_be_imported(image: Path, broken: Broken) -> None:
    holds(broken.verify(image, "image/imports"))


# What the image says of itself.


def test_the_record_of_the_shipped_image_is_as_it_was_sealed(image: Path, broken: Broken) -> None:
    sealed = read(image, f"/{HOME}/sha256sums").decode().splitlines()
    recipe = hashlib.sha256(read(image, f"/{HOME}/recipe.yaml")).hexdigest()
    assert f"{recipe}  ./recipe.yaml" in sealed
    holds(broken.verify(image, "image/record"))


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
