"""``run`` and ``binds`` give a container what its platform, its layers and their libraries need."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from lumicontainer.host.ca_bundles import FOLDER as FOLDER_OF_TRUST
from lumicontainer.host.host_libraries import FOLDER
from lumicontainer.host.machine import is_there
from lumicontainer.system.user_namespaces import namespace_options

from ...conftest import ROOT
from ...programs import run
from ..compiled import Root
from ..verify.test_inspect import HELLO, made

pytestmark = pytest.mark.slow

ENGINE = """\
#!/bin/sh
# Prints what the image has, where that is asked, and else how it was called.
case " $* " in
*" python3 "*) cat {answer} ;;
*) printf '%s\\n' "$@" ;;
esac
"""


@dataclass
class Site:
    """Hold a platform, an image, and an engine that stands for the real one."""

    folder: Path
    host: Root
    library: Path
    seen: Path

    def image(self, **record: object) -> Path:
        return made(self.folder / "image", json.dumps({**HELLO, **record}))

    def tell(self, **has: object) -> None:
        """Let the image have libraries and folders."""
        (self.folder / "answer").write_text(json.dumps({"folders": [], "libraries": {}, **has}))

    def call(self, verb: str, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
        options = ("--platform", "site", "--recipes", self.folder / "own")
        path = f"{self.folder / 'tools'}:/usr/bin:/bin"
        return subprocess.run(
            [sys.executable, "-m", "lumicontainer", verb, *map(str, (*options, *words))],
            env={"PATH": path, "PYTHONPATH": str(ROOT), **env},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    host = Root(tmp_path / "host")
    below = host.library("/below/libbelow.so.1", defines=["below"])
    flags = ["-Wl,-rpath,$ORIGIN/../below"]
    library = host.library("/lib/libtop.so.1", uses=["below"], needs=[below], flags=flags)
    seen, tools, envs = tmp_path / "seen", tmp_path / "tools", tmp_path / "own/envs"
    for folder in (seen, tools, envs, tmp_path / "image"):
        folder.mkdir(parents=True)
    binds = f"  - {{path: '{seen}', reason: data lies there}}\n"
    binds += "  - {path: /nowhere/at/all, reason: it is elsewhere}\n"
    (envs / "site.yaml").write_text(f"summary: x\naccelerator: cpu\nbinds:\n{binds}")
    engine = tools / "apptainer"
    engine.write_text(ENGINE.format(answer=shlex.quote(str(tmp_path / "answer"))))
    engine.chmod(0o755)
    (tmp_path / "answer").write_text('{"folders": [], "libraries": {}}')
    return Site(tmp_path, host, library, seen)


def options(words: list[str], option: str) -> list[str]:
    return [value for each, value in pairwise(words) if each == option]


def library_rows(site: Site) -> list[dict[str, str]]:
    return [{"path": str(site.library), "reason": "the driver's own"}]


def test_run_binds_the_libraries_and_puts_them_first(site: Site) -> None:
    site.tell(folders=["/opt/rocm/lib", "/.singularity.d/libs"])
    done = site.call("run", site.image(host_libraries=library_rows(site)), "--", "true")
    words = done.stdout.splitlines()
    below = site.host.path / "below/libbelow.so.1"
    libraries = [f"{path}:{FOLDER}/{path.name}" for path in (site.library, below)]
    assert options(words, "--bind") == [str(site.seen), *libraries], done.stderr
    assert options(words, "--env") == [f"LD_LIBRARY_PATH={FOLDER}:/opt/rocm/lib"]


@pytest.mark.parametrize("binding", [True, False])
def test_run_binds_what_the_image_of_another_platform_needs_if_this_one_binds(
    site: Site, binding: bool
) -> None:
    site.tell(libraries="what would break")
    other, seen, nowhere = str(site.host.path), str(site.seen), "/nowhere/libgone.so.1"
    needs: dict[str, object] = {"platform": {"name": "theirs", "accelerator": "cpu"}}
    needs["binds"] = [{"path": path, "reason": "x"} for path in (other, seen, nowhere)]
    if not binding:
        (site.folder / "own/envs/site.yaml").write_text("summary: x\naccelerator: cpu\n")
        needs["host_libraries"] = [{"path": nowhere, "reason": "the layer needs it"}]
    done = site.call("run", site.image(**needs), "--", "true")
    assert done.returncode == 0
    words = done.stdout.splitlines()
    assert options(words, "--bind") == ([seen, other] if binding else [])
    assert options(words, "--env") == []


def test_run_binds_what_layers_need_on_their_platform_without_binds(site: Site) -> None:
    (site.folder / "own/envs/site.yaml").write_text("summary: x\naccelerator: cpu\n")
    rows = [{"path": path, "reason": "x"} for path in (str(site.seen), "/nowhere/data")]
    image = site.image(binds=rows, host_libraries=library_rows(site))
    done = site.call("binds", image)
    assert done.returncode == 0, done.stderr
    assert f"    --bind {site.seen}  # x\n" in done.stdout
    assert "# not on this host: /nowhere/data: x\n" in done.stdout
    assert "# libtop.so.1 needs it, and the image has none\n" in done.stdout
    site.library.unlink()
    assert "error: the host has no libtop.so.1\n" in site.call("run", image, "--", "true").stderr


def test_run_refuses_what_cannot_work_with_all_reasons(site: Site) -> None:
    (site.host.path / "below/libbelow.so.1").unlink()
    gone = {"path": "/nowhere/libgone.so.1", "reason": "the layer wants it"}
    image = site.image(host_libraries=[*library_rows(site), gone])
    for verb, words in (("run", ("--", "true")), ("binds", ())):
        done = site.call(verb, image, *words)
        assert done.returncode == 3
        assert done.stdout == ("" if verb == "run" else "binds=()\n(exit 3)\n")
        assert "error: the host has no libgone.so.1\n" in done.stderr
        assert "error: neither the host nor the image has libbelow.so.1" in done.stderr


def test_binds_prints_the_options_of_run_as_an_array_with_the_reason_of_each(site: Site) -> None:
    (bundle := site.folder / "site.pem").touch()
    row = {"path": str(site.library), "reason": "a line # $(echo broken out)"}
    image, env = site.image(host_libraries=[row]), {"PIP_CERT": str(bundle)}
    done = site.call("binds", image, **env)
    assert done.returncode == 0, done.stderr
    assert "# not on this host: /nowhere/at/all: it is elsewhere\n" in done.stdout
    assert f"    --bind {site.seen}  # data lies there\n" in done.stdout
    assert "# libtop.so.1 needs it, and the image has none\n" in done.stdout
    assert "  # a line # $(echo broken out)\n" in done.stdout
    started = site.call("run", image, "--", "true", **env).stdout.splitlines()
    assert f"PIP_CERT={FOLDER_OF_TRUST}/ca-1.pem" in started
    script = f'{done.stdout}printf "%s\\n" "${{binds[@]}}"'
    printed = run(["bash", "-euc", script]).stdout
    assert printed.splitlines() == started[started.index("exec") + 1 : -2]


def test_a_bind_of_the_user_that_this_host_lacks_is_said(site: Site) -> None:
    for verb, words in (("run", ("--", "true")), ("binds", ())):
        done = site.call(verb, site.image(), *words, SINGULARITY_BIND="/no/such:/b")
        assert done.returncode == 0
        assert "SINGULARITY_BIND" in done.stderr
        assert "where: /no/such\n" in done.stderr


def test_a_static_line_names_the_binds_whether_this_host_has_them_or_not(site: Site) -> None:
    done = site.call("binds", "--static", site.image())
    assert done.stdout == f"export SINGULARITY_BIND={site.seen},/nowhere/at/all\n", done.stderr


MPI4PY = {"version": None, "parameters": {}, "origins": {}, "packages": {"python": ["mpi4py==4.1"]}}


def test_binds_lets_srun_start_the_ranks_of_mpi(site: Site) -> None:
    image = site.image(layers={"mine": MPI4PY})
    done = site.call("binds", image)
    shell = run(["bash", "-euc", f"{done.stdout}printenv SLURM_MPI_TYPE"])
    assert shell.stdout == "pmi2\n", done.stderr
    static = site.call("binds", "--static", image).stdout.splitlines()
    assert static[1:] == ["export SLURM_MPI_TYPE=pmi2"]
    assert json.loads(site.call("binds", "--json", image).stdout)["exports"] == {
        "SLURM_MPI_TYPE": "pmi2"
    }
    assert " --mpi=pmi2 " in site.call("job", image, "--", "true").stdout


def test_binds_of_an_image_without_mpi_leave_srun_alone(site: Site) -> None:
    assert "SLURM_MPI_TYPE" not in site.call("binds", site.image()).stdout


def test_static_binds_as_json_have_the_same_value(site: Site) -> None:
    data = json.loads(site.call("binds", "--static", "--json", site.image()).stdout)
    assert data["bind"] == f"{site.seen},/nowhere/at/all"
    assert (data["options"], data["absent"]) == ([], [])


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("binds", ()),
        ("binds", ("--static",)),
        ("job", ("--", "true")),
        ("module", ("--prefix", "modules")),
        ("reframe", ()),
    ],
)
def test_each_verb_for_jobs_warns_of_the_image_of_another_platform(
    site: Site, verb: str, words: tuple[str, ...]
) -> None:
    image = site.image(platform={"name": "theirs", "accelerator": "cpu"})
    words = tuple(str(site.folder / each) if each == "modules" else each for each in words)
    done = site.call(verb, image, *words)
    assert done.returncode == 0, done.stderr
    assert "warning: the image was built for platform 'theirs', not for 'site'\n" in done.stderr


def test_no_static_line_can_name_the_libraries_of_a_host(site: Site) -> None:
    done = site.call("binds", "--static", site.image(host_libraries=library_rows(site)))
    assert (done.returncode, done.stdout) == (3, "")
    assert "error: the image takes libraries of its host\n" in done.stderr


def test_the_command_for_the_job_can_be_pasted(site: Site) -> None:
    image = site.image(host_libraries=library_rows(site))
    spaced = image.rename(image.with_name("my image.sif"))
    done = site.call("binds", "--static", spaced)
    assert f"hint: call lumicontainer binds '{spaced}' in the job\n" in done.stderr


def test_a_job_script_that_evaluates_what_binds_refuses_ends(site: Site) -> None:
    site.library.unlink()
    done = site.call("binds", site.image(host_libraries=library_rows(site)))
    script = 'eval "$1" || exit; echo "starts ${binds[*]}"'
    job = run(["bash", "-c", script, "job", done.stdout])
    assert (job.returncode, job.stdout) == (3, "")


def test_what_is_below_a_folder_that_is_closed_to_this_user_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        assert not is_there(str(tmp_path / "closed/in"))
        assert is_there("/usr")
    finally:
        os.seteuid(user)


def test_binds_as_json_has_the_value_of_the_engines_variable(site: Site) -> None:
    (bundle := site.folder / "site.pem").touch()
    image = site.image(host_libraries=library_rows(site))
    data = json.loads(site.call("binds", "--json", image, SSL_CERT_FILE=str(bundle)).stdout)
    assert (data["works"], data["platform"], data["problems"]) == (True, "site", [])
    first, second, third, trust = data["binds"]
    seen = str(site.seen)
    assert first == {"source": seen, "target": seen, "reason": "data lies there"}
    assert second["reason"] == "the driver's own"
    place = f"{FOLDER_OF_TRUST}/ca-1.pem"
    assert trust["mode"] == "ro"
    last = f"{third['source']}:{third['target']},{bundle}:{place}:ro"
    assert data["bind"].endswith(f":{FOLDER}/libtop.so.1,{last}")
    assert data["environment"] == {"LD_LIBRARY_PATH": FOLDER, "SSL_CERT_FILE": place}
    assert data["absent"] == [{"path": "/nowhere/at/all", "reason": "it is elsewhere"}]
    assert data["options"] == namespace_options()
    site.library.unlink()
    done = site.call("binds", "--json", image)
    data = json.loads(done.stdout)
    assert (done.returncode, data["works"]) == (3, False)
    assert [each["what"] for each in data["problems"]] == ["the host has no libtop.so.1"]


@pytest.mark.parametrize(
    "said", ["", "[]", "{}", '{"folders": [], "libraries": {"libtop.so.1": {"path": "/x"}}}']
)
def test_an_image_that_lists_its_libraries_wrongly_is_refused(site: Site, said: str) -> None:
    (site.folder / "answer").write_text(said)
    done = site.call("binds", site.image(host_libraries=library_rows(site)))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "the libraries that its python3 lists" in done.stderr
