"""Libraries of the host take the place of an image's when it is started, with all they need."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from ..unit.compiled import Root, gcc
from .conftest import ENGINE, SMALL, lumicontainer, run

PROGRAM = """\
#include <stdio.h>
const char *foo(void);
int main(void) { puts(foo()); return 0; }
"""
IMAGES_FOO = 'const char *foo(void) { return "the image\'s foo"; }\n'
HOSTS_FOO = """\
const char *bar(void);
const char *foo(void) { return bar(); }
"""
HOSTS_BAR = 'const char *bar(void) { return "the host\'s foo and bar"; }\n'
LAYER = """\
summary: a library and a program
environment: {LD_LIBRARY_PATH: /opt/foo/own}
host_libraries:
  - {path: '%s', reason: it fits the driver}
"""
INSTALL = """\
set -euo pipefail
install -D -m 0755 program /opt/foo/program
install -D -m 0755 libfoo.so.1 /usr/lib/x86_64-linux-gnu/libfoo.so.1
"""


@dataclass
class Site:
    """Hold an image that has libfoo.so.1, and a host that has a newer one."""

    host: Path
    image: Path
    own: Path

    def library(self, name: str, text: str, *words: object) -> Path:
        """Compile a library of the host."""
        return library(self.host / name, text, *words)

    def call(self, verb: str, *words: object, platform: str = "site"):
        return lumicontainer(
            verb, "--platform", platform, "--recipes", self.own, self.image, *words
        )


def library(path: Path, text: str, *words: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text(text)
    gcc("-shared", "-fPIC", "-o", path, source, f"-Wl,-soname,{path.name}", *words)
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    host, own = folder / "host", folder / "own"
    layer = own / "layers/foo"
    foo = library(layer / "libfoo.so.1", IMAGES_FOO)
    (layer / "main.c").write_text(PROGRAM)
    gcc("-o", layer / "program", layer / "main.c", foo)
    for source in layer.glob("*.c"):
        source.unlink()
    texts = {
        "foo.yaml": "summary: foo\nbase: tiny\nlayers: [foo]\n",
        "layers/tiny/layer.yaml": SMALL["layers/tiny/layer.yaml"],
        "layers/foo/layer.yaml": LAYER % (host / "libfoo.so.1"),
        "layers/foo/install.sh": INSTALL,
        "envs/site.yaml": (
            "summary: a site\naccelerator: cpu\n"
            f"binds: [{{path: '{host}/data', reason: data lies there}}]\n"
        ),
    }
    for name, text in texts.items():
        path = own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (host / "data").mkdir(parents=True)
    done = lumicontainer("build", "foo", "--platform", "site", "--recipes", own, cwd=folder)
    assert done.returncode == 0, done.stderr
    return Site(host, folder / "foo.sif", own)


@pytest.fixture
def newer(site: Site) -> Site:
    """Let the host have a libfoo that needs a libbar, which the image has not."""
    bar = site.library("below/libbar.so.1", HOSTS_BAR)
    site.library("libfoo.so.1", HOSTS_FOO, bar, "-Wl,-rpath,$ORIGIN/below")
    return site


def test_the_image_alone_uses_its_own_library(newer: Site) -> None:
    done = run([ENGINE, "-s", "exec", "--userns", newer.image, "/opt/foo/program"])
    assert done.stdout == "the image's foo\n", done.stderr


def test_run_lets_the_program_use_the_hosts_library_and_what_it_needs(newer: Site) -> None:
    done = newer.call("run", "--", "/opt/foo/program")
    assert done.stdout == "the host's foo and bar\n", done.stderr


def test_what_binds_prints_works_in_a_job_script(newer: Site) -> None:
    printed = newer.call("binds")
    assert printed.returncode == 0, printed.stderr
    words = shlex.join([ENGINE, "-s", "exec", "--userns"])
    script = f'{printed.stdout}{words} "${{binds[@]}}" "$1" /opt/foo/program'
    done = run(["bash", "-euc", script, "job", newer.image])
    assert done.stdout == "the host's foo and bar\n", done.stderr


def test_what_binds_prints_as_json_works_as_the_engines_variables(newer: Site) -> None:
    data = json.loads(newer.call("binds", "--json").stdout)
    variables = {f"APPTAINERENV_{name}": value for name, value in data["environment"].items()}
    variables |= {f"SINGULARITYENV_{name}": value for name, value in data["environment"].items()}
    variables |= {"APPTAINER_BIND": data["bind"], "SINGULARITY_BIND": data["bind"]}
    command = [ENGINE, "-s", "exec", "--userns", newer.image, "/opt/foo/program"]
    done = run(command, env=variables)
    assert done.stdout == "the host's foo and bar\n", done.stderr


def test_a_library_that_the_images_c_library_is_too_old_for_is_refused(newer: Site) -> None:
    libc = Root(newer.host / "future").library("libc.so.6", defines={"GLIBC_9.9": ["later"]})
    text = 'int later(void);\nconst char *foo(void) { return later() ? "x" : "y"; }\n'
    newer.library("libfoo.so.1", text, libc)
    for verb, words in (("binds", ()), ("run", ("--", "/opt/foo/program"))):
        done = newer.call(verb, *words)
        assert done.returncode == 3
        assert done.stdout == ("" if verb == "run" else "binds=()\n(exit 3)\n")
        assert "error: the image's libc.so.6 has no version GLIBC_9.9; its newest" in done.stderr
        assert f"where: {newer.host}/libfoo.so.1 (a layer: it fits the driver)" in done.stderr
        assert "libfoo.so.1 of the host needs it for later\n" in done.stderr
