"""Libraries of the host take the place of an image's when it is started, with all they need."""

import json
import shlex
from pathlib import Path

import pytest

from ..cli.conftest import succeeded
from ..unit.compiled import gcc
from .conftest import ENGINE, lumicontainer, run, write_small

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


def library(path: Path, text: str, *words: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text(text)
    gcc("-shared", "-fPIC", "-o", path, source, f"-Wl,-soname,{path.name}", *words)
    return path


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an image that has libfoo.so.1, on a host whose own needs a libbar besides."""
    folder = tmp_path_factory.mktemp("site")
    host, layer = folder / "host", folder / "own/layers/foo"
    foo = library(layer / "libfoo.so.1", IMAGES_FOO)
    (layer / "main.c").write_text(PROGRAM)
    gcc("-o", layer / "program", layer / "main.c", foo)
    for source in layer.glob("*.c"):
        source.unlink()
    files = {
        "foo.yaml": "summary: foo\nbase: tiny\nlayers: [foo]\n",
        "layers/foo/layer.yaml": LAYER % (host / "libfoo.so.1"),
        "layers/foo/install.sh": INSTALL,
        "envs/site.yaml": (
            "summary: a site\naccelerator: cpu\n"
            f"binds: [{{path: '{host}/data', reason: data lies there}}]\n"
        ),
    }
    write_small(folder / "own", files)
    (host / "data").mkdir(parents=True)
    words = ("build", "foo", "--platform", "site", "--recipes", folder / "own")
    succeeded(lumicontainer(*words, cwd=folder))
    bar = library(host / "below/libbar.so.1", HOSTS_BAR)
    library(host / "libfoo.so.1", HOSTS_FOO, bar, "-Wl,-rpath,$ORIGIN/below")
    return folder / "foo.sif"


def call(verb: str, image: Path, *words: object) -> str:
    """Return the output of a verb on the site; tests/unit/host/test_binds.py has the others."""
    options = ("--platform", "site", "--recipes", image.parent / "own")
    done = succeeded(lumicontainer(verb, *options, image, *words))
    return done.stdout


def test_run_lets_the_program_use_the_hosts_library_and_what_it_needs(image: Path) -> None:
    alone = run([ENGINE, "-s", "exec", "--userns", image, "/opt/foo/program"])
    assert alone.stdout == "the image's foo\n", alone.stderr
    assert call("run", image, "--", "/opt/foo/program") == "the host's foo and bar\n"


def test_what_binds_prints_works_in_a_job_script(image: Path) -> None:
    words = shlex.join([ENGINE, "-s", "exec", "--userns"])
    script = f'{call("binds", image)}{words} "${{binds[@]}}" "$1" /opt/foo/program'
    done = run(["bash", "-euc", script, "job", image])
    assert done.stdout == "the host's foo and bar\n", done.stderr


def test_what_binds_prints_as_json_works_as_the_engines_variables(image: Path) -> None:
    data = json.loads(call("binds", image, "--json"))
    variables = {"APPTAINER_BIND": data["bind"], "SINGULARITY_BIND": data["bind"]}
    for name, value in data["environment"].items():
        variables |= {f"APPTAINERENV_{name}": value, f"SINGULARITYENV_{name}": value}
    done = run([ENGINE, "-s", "exec", "--userns", image, "/opt/foo/program"], env=variables)
    assert done.stdout == "the host's foo and bar\n", done.stderr
