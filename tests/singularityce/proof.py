"""An ordinary user of Ubuntu 24.04 without user namespaces builds and runs by SingularityCE.

``make singularityce`` runs it as root: the system is too large for ``make test``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ..integration.registries import registry
from ..integration.test_without_internet import push
from ..programs import run
from . import system

RECIPE = {
    "users.yaml": "summary: packages that add users\nbase: tiny\nlayers: [users]\n",
    "layers/tiny/layer.yaml": (
        "summary: Debian with Python\nbootstrap:\n"
        "  cpu: {agent: debootstrap, release: bookworm, include: [python3],"
        " docker_image: 'docker.io/library/debian:bookworm'}\n"
        'provides: {python: "3.11"}\n'
    ),
    "layers/users/layer.yaml": (
        "summary: a user, a group, and a wheel\npackages: {apt: [adduser, openssh-client]}\n"
        "parameters: {change: {type: string, default: none}}\n"
    ),
    "layers/users/compile.sh": (
        "set -euo pipefail\n"
        'cd "$(mktemp -d)" && id -u >builder.txt && grep Tracer /proc/self/status >traced.txt\n'
        'python3 -m zipfile -c "$wheels/compiled-1-py3-none-any.whl" builder.txt traced.txt\n'
    ),
    "layers/users/install.sh": (
        "set -euo pipefail\nuseradd --system owner\n"
        "touch /opt/owned && chown owner:_ssh /opt/owned\n"
        'python3 -m zipfile -e "$wheels"/*.whl /opt\n'
    ),
    "envs/proot.yaml": (
        "summary: a host with PRoot\naccelerator: cpu\n"
        "proot: singularity build RECIPE.sif RECIPE.def\n"
    ),
}
SPAWN = """
import os
for _ in range(50):
    words = ["sh", "-c", "true && true"]
    started = [os.posix_spawn("/bin/sh", words, os.environ) for _ in range(4)]
    assert not any(os.waitpid(each, 0)[1] for each in started)
"""
IMAGE = "users.sif"
BASE = "library/debian:bookworm"
FOREIGN = "foreign.sif"
ONLY = "summary: the other image and what every image has\nbase: mine-base\nlayers: []\n"
IMPORT = ("python3", "-c", "import tabulate; print(tabulate.__file__)")
SITE = "lib/python3.11/site-packages/tabulate/__init__.py"


def inside(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in the system as its user."""
    return run([*system.start(), *words])


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Make the system, and install the wheel of this checkout and the recipe for its user."""
    system.make()
    home = system.SYSTEM / system.HOME.strip("/")
    made = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", home, system.ROOT]
    assert run(made).returncode == 0
    for name, text in RECIPE.items():
        (home / "recipes" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "recipes" / name).write_text(text)
    script = (
        "rm -rf venv && python3 -m venv venv && venv/bin/pip install --quiet lumicontainer-*.whl"
    )
    done = inside("sh", "-c", script)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def build() -> str:
    """Build the recipe, with its layer changed; return what the build printed."""
    words = ("lumicontainer", "--verbose", "build", "users", "--recipes", "recipes")
    done = inside(*words, "--set", f"users.change={time.time_ns()}")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the name of an image of Debian in a registry on loopback.

    It has the folders that pip's configuration of this host names: a bind of SingularityCE's build
    needs a place that is there.
    """
    work = tmp_path_factory.mktemp("registry")
    folders = " ".join(f"$1{folder}" for folder in system.site().folders)
    hook = [f"--customize-hook=mkdir -p $1/mnt {folders}"]
    # The engine shows PRoot in the container, and Debian's is linked with libtalloc.
    words = ["mmdebstrap", "--variant=minbase", "--include=libtalloc2,python3", *hook]
    words += ["bookworm", work / "base.tar"]
    made = run([*words, system.site().mirror])
    assert made.returncode == 0, made.stderr
    with registry(work) as here:
        push(work / "base.tar", f"{here}/{BASE}")
        yield f"{here}/{BASE}"


@pytest.fixture(scope="module")
def foreign(base: str) -> str:
    """Build an image by the engine alone, and write the recipe ``mine`` on it; return its name."""
    plain = f"singularity build --no-https --force {FOREIGN} docker://{base}"
    recipe = f"rm -rf mine && lumicontainer init mine --base-image {FOREIGN}"
    done = inside("bash", "-c", f"{plain} && {recipe}")
    assert done.returncode == 0, done.stderr[-3000:]
    home = system.SYSTEM / system.HOME.strip("/")
    (home / "mine/only.yaml").write_text(ONLY)
    return FOREIGN


def succeed(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command as ``inside`` does; it must end well."""
    done = inside(*words)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_no_user_namespace_can_be_made_and_the_engine_has_setuid() -> None:
    assert inside("unshare", "--user", "true").returncode != 0
    assert inside("singularity", "--version").stdout.startswith("singularity-ce version 4.1")


def test_proot_loses_no_program_that_another_one_starts() -> None:
    done = inside("proot", "-0", "python3", "-c", SPAWN)
    assert done.returncode == 0, done.stderr


def test_the_doctor_finds_that_this_user_can_build() -> None:
    done = inside("lumicontainer", "doctor")
    assert done.returncode == 0, done.stdout
    assert "✓ runtime proot: can build" in done.stdout
    assert "✓ engine: singularity-ce version 4.1" in done.stdout


def test_compiling_and_checks_run_in_the_engines_container(build: str) -> None:
    assert "runtime: proot (namespaces: this user cannot create user namespaces" in build
    assert "users: compile: in a container of the engine, without ptrace" in build
    assert "check: in a container of the engine, without ptrace" in build
    seen = inside("singularity", "exec", IMAGE, "cat", "/opt/builder.txt", "/opt/traced.txt")
    assert seen.stdout.split() == [str(system.NUMBER), "TracerPid:", "0"]


def test_users_of_packages_own_their_files_in_the_image(build: str) -> None:
    seen = inside("singularity", "exec", IMAGE, "stat", "--format=%U:%G", "/opt/owned")
    assert seen.stdout == "owner:_ssh\n", seen.stderr


def test_the_engine_reads_and_runs_the_image(build: str) -> None:
    entry = inside("singularity", "exec", IMAGE, "lumi-entry", "--version")
    assert re.fullmatch(r"lumi-entry \d\S*\n", entry.stdout), entry.stderr
    assert "org.lumicontainer.key: " in inside("singularity", "inspect", IMAGE).stdout
    assert "FS (Squashfs/*System/amd64)" in inside("singularity", "sif", "list", IMAGE).stdout
    bound = (
        'eval "$(lumicontainer binds users.sif)" && singularity exec "${binds[@]}" users.sif id -u'
    )
    assert inside("bash", "-c", bound).stdout == f"{system.NUMBER}\n"
    assert inside("lumicontainer", "run", IMAGE, "--", "id", "-u").stdout == f"{system.NUMBER}\n"


def test_quick_checks_pass_in_every_start_mode(build: str) -> None:
    done = inside("lumicontainer", "verify", IMAGE, "--level", "quick", "--json")
    assert done.returncode == 0, done.stderr
    names = {each["name"] for each in json.loads(done.stdout)["checks"]}
    assert {"image/environment [run]", "image/environment [umask]"} <= names


def test_the_engine_pulls_an_image_that_was_pushed_as_one_blob(
    build: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with registry(tmp_path_factory.mktemp("exchange")) as here:
        succeed("lumicontainer", "push", IMAGE, f"oci://{here}/users:1", "--format", "sif")
        words = ("--force", "--no-https", "pulled.sif", f"oras://{here}/users:1")
        succeed("singularity", "pull", *words)
    succeed("cmp", IMAGE, "pulled.sif")


@pytest.fixture(scope="module")
def signed(build: str) -> str:
    """Sign a copy of the image by the engine with the PEM key ``a``; return its name."""
    keys = "".join(
        f"openssl genpkey -algorithm RSA -out {name}.pem && "
        f"openssl pkey -in {name}.pem -pubout -out {name}.pub && "
        for name in "ab"
    )
    succeed("sh", "-c", f"{keys}cp {IMAGE} signed.sif && singularity sign --key a.pem signed.sif")
    return "signed.sif"


def said_of(image: str, signer: str) -> str:
    """Return why an image is not started whose signer is named; empty if it is started."""
    done = inside("lumicontainer", "run", "--signed-by", signer, image, "--", "echo", "started")
    if done.returncode == 0:
        assert done.stdout == "started\n"
        return ""
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.partition("error: ")[2].partition("\n")[0]


def test_unsigned_wrong_key_and_altered_are_told_apart(signed: str) -> None:
    assert said_of(signed, "a.pub") == ""
    assert said_of(signed, "b.pub") == "the image is signed by another key"
    assert said_of(IMAGE, "a.pub") == "the image is not signed"
    change = "cp signed.sif changed.sif && printf X | dd of=changed.sif bs=1 seek={} conv=notrunc"
    rows = succeed("singularity", "sif", "list", signed).stdout
    begins = re.findall(r"\|(\d+)-\d+ *\|(?:Def\.FILE|JSON\.Generic)", rows)
    assert len(begins) > 1
    for begin in begins:
        succeed("sh", "-c", change.format(begin))
        assert said_of("changed.sif", "a.pub") == "the image is altered since it was signed"


def test_a_key_of_the_engines_keyring_signs_for_those_who_have_it(signed: str) -> None:
    owner = ("-N", "A", "-E", "a@example.org", "-C", "", "-P", "", "-U=false")
    succeed("sh", "-c", "rm -rf .singularity/sypgp")
    succeed("singularity", "key", "newpair", *owner)
    succeed("sh", "-c", f"cp {IMAGE} ring.sif && singularity sign ring.sif")
    start = ("lumicontainer", "run", "--require-signed")
    assert succeed(*start, "ring.sif", "--", "echo", "started").stdout == "started\n"
    assert "signed by another key" in inside(*start, signed, "--", "true").stderr


def test_a_rendered_definition_is_built_by_proot(base: str) -> None:
    words = "lumicontainer render users --recipes recipes --platform proot"
    text = f"{words} | sed 's,^From: .*,From: {base},' >users.def"
    plain = "singularity build --no-https --force plain.sif users.def"
    done = inside("bash", "-c", f"{text} && {plain}")
    assert done.returncode == 0, done.stderr[-3000:]
    seen = inside("singularity", "exec", "plain.sif", "cat", "/opt/builder.txt")
    assert seen.stdout == "0\n", seen.stderr
    assert inside("lumicontainer", "verify", "plain.sif", "--level", "quick").returncode == 0


def test_an_image_of_the_engine_is_a_base_that_is_not_unpacked(foreign: str) -> None:
    done = succeed("lumicontainer", "--verbose", "build", "mine/only.yaml")
    assert "base: read files" not in done.stderr
    seen = succeed("singularity", "exec", "only.sif", "lumi-entry", "--version")
    assert re.fullmatch(r"lumi-entry \d\S*\n", seen.stdout), seen.stderr
    succeed("lumicontainer", "verify", "only.sif", "--level", "quick")


def test_a_layer_runs_commands_on_an_image_of_the_engine(foreign: str) -> None:
    succeed("lumicontainer", "build", "mine/mine.yaml")
    succeed("singularity", "exec", "mine.sif", "mine")
    succeed("lumicontainer", "verify", "mine.sif", "--level", "quick")


def test_an_image_of_the_engine_gets_packages_next_to_it_and_in_a_new_image(foreign: str) -> None:
    extend = ("lumicontainer", "extend", foreign, "tabulate==0.9.0")
    succeed(*extend, "-o", "packages.sqsh")
    seen = succeed("lumicontainer", "run", "--with", "packages.sqsh", foreign, "--", *IMPORT)
    assert seen.stdout == f"/user-software/{SITE}\n"
    succeed(*extend, "--into", "more.sif")
    seen = succeed("singularity", "exec", "more.sif", *IMPORT)
    assert seen.stdout == f"/opt/user-software/00/{SITE}\n"


def test_a_changed_last_layer_takes_a_tenth_of_the_engines_own_build(base: str) -> None:
    bench = ["venv/bin/python", f"{system.CHECKOUT}/tests/bench/proot.py"]
    done = inside(*bench, "pytorch-deepspeed", base)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
