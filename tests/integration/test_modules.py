"""lumicontainer module: the real Lmod and Environment Modules load what it writes."""

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from lumicontainer.core.render.jinja import lua_string, tcl_word

from ..cli.conftest import succeeded
from ..conftest import ROOT
from .conftest import lumicontainer, run

USERNS = {"APPTAINER_USERNS": "1", "SINGULARITY_USERNS": "1"}
PATH = "/usr/local/bin:/usr/bin:/bin"
STRANGE = r"""it's $(id) `id` [id] {x} \ "q" ]==] %d é; # a"""
"""A folder, and words, that Lua, Tcl or a shell could read as something else."""
VALUE = STRANGE.translate(dict.fromkeys(map(ord, "$`\\")))
"""Variables that an engine passes to a container unchanged."""
SITE = "summary: x\naccelerator: cpu\nbinds:\n  - {path: /srv, reason: data lies there}\n"
LUMI_BINDS = (
    "family('containerbindings')\nsetenv('SINGULARITY_BIND', '/pfs,/scratch')\n",
    "#%Module1.0\nfamily containerbindings\nsetenv SINGULARITY_BIND /pfs,/scratch\n",
)
"""A module of binds as LUMI's easyconfigs write it."""
LMOD, TCL = "usr/share/lmod/lmod/libexec/lmod", "usr/lib/*/modulecmd.tcl"


@dataclass(frozen=True)
class System:
    """Hold a program that reads module files, and the language of the files that it gets."""

    command: str
    options: tuple[str, ...]

    def shell(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a script of bash that has the command ``module``."""
        start = f'module() {{ eval "$({self.command} bash "$@")"; }}\n'
        own = {**USERNS, "PATH": PATH, "LC_ALL": "C.UTF-8", "MODULEPATH": "", **env}
        return run(["bash", "-c", start + script], env=own)


@pytest.fixture(scope="session")
def unpacked() -> Path:
    done = succeeded(run([ROOT / "tests/modules.sh"]))
    return Path(done.stdout.strip())


@pytest.fixture(params=["lmod", "environment-modules"])
def system(request: pytest.FixtureRequest, unpacked: Path) -> System:
    """Return a system of modules; each reads what is written for it."""
    if request.param == "environment-modules":
        (program,) = unpacked.glob(TCL)
        return System(f"tclsh {shlex.quote(str(program))}", ("--tcl",))
    return System(shlex.quote(str(unpacked / LMOD)), ())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return the folder of the modules."""
    return tmp_path / "it's a site"


@pytest.fixture
def folder(tmp_path: Path, small: Path) -> Path:
    """Return a folder with a strange name that has two versions of one image."""
    place = tmp_path / STRANGE
    (tmp_path / "own/envs").mkdir(parents=True)
    (tmp_path / "own/envs/site.yaml").write_text(SITE)
    place.mkdir()
    for version in ("1.0", "2.0"):
        (place / f"small-{version}.sif").symlink_to(small)
    return place


Write = Callable[..., str]


@pytest.fixture
def write(folder: Path, site: Path, system: System) -> Write:
    """Write the modules of both images; return the commands that make them known."""

    def write_modules(*options: str) -> str:
        words = ["--prefix", site, "--platform", "site"]
        words += ["--recipes", folder.parent / "own", *system.options, *options]
        images = sorted(folder.glob("*.sif"), reverse=True)
        done = succeeded(lumicontainer("module", *images, *words))
        assert done.stdout.splitlines()[1:] == ["module load small/2.0", "module load small/1.0"]
        return done.stdout.splitlines()[0] + "\n"

    return write_modules


SHOW = (
    'printf "%s\\n" "$SIF" "$SINGULARITY_BIND" "$APPTAINER_BIND"'
    ' "${SINGULARITYENV_TEXT-no}" "$PATH"\n'
)


SIGNS = [*'][={}\\"$`(;#%\n\t éa']
PRINT = {
    "lua": ("lua5.3", "io.write({}, '\\0')\n"),
    "tcl": ("tclsh", "if {{1}} {{ puts -nonewline {}; puts -nonewline \\0 }}\n"),
}


@pytest.mark.parametrize("language", PRINT)
def test_any_text_is_one_word(language: str, tmp_path: Path) -> None:
    random = Random(1)
    texts = ["", *("".join(random.choices(SIGNS, k=random.randrange(1, 9))) for _ in range(10_000))]
    program, line = PRINT[language]
    script = tmp_path / "script"
    filters = {"lua": lua_string, "tcl": tcl_word}
    script.write_text("".join(line.format(filters[language](text)) for text in texts))
    done = run([program, script], env={"LC_ALL": "C.UTF-8"})
    assert done.stdout.split("\0")[:-1] == texts, done.stderr


def test_load_adds_to_what_the_user_has_and_unload_restores_it(
    system: System, write: Write, folder: Path, site: Path
) -> None:
    use = write("--env", f"TEXT={VALUE}")
    script = f"{use}module load small\n{SHOW}module unload small\n{SHOW}"
    mine = {"SIF": "mine.sif", "SINGULARITY_BIND": "/mine:/x", "APPTAINER_BIND": "/mine"}
    done = system.shell(script, **mine)
    path = f"{site}/programs/small/1.0/bin:{PATH}"
    loaded = [f"{folder}/small-1.0.sif", "/mine:/x,/srv", "/mine,/srv", VALUE, path]
    assert done.stdout.splitlines() == [*loaded, *mine.values(), "no", PATH], done.stderr


def test_a_program_gets_its_words_binds_and_variables(system: System, write: Write) -> None:
    use = write("--env", f"TEXT={VALUE}")
    code = "import os, sys; print(*sys.argv[1:], os.environ['TEXT'], sep='|'); sys.exit(7)"
    words = shlex.join(["a b", "", STRANGE])
    script = f"module load small; python3 -c {shlex.quote(code)} {words}; echo $?; lumi-shell -c"
    done = system.shell(f"{use}{script} 'findmnt -no TARGET /srv'")
    assert done.stdout.splitlines() == [f"a b||{STRANGE}|{VALUE}", "7", "/srv"], done.stderr


def test_users_read_what_the_module_is_for_and_which_version_is_the_default(
    system: System, write: Write, folder: Path
) -> None:
    script = "module avail; module whatis small/1.0; module help small/1.0; module show small/2.0"
    done = system.shell(f"{write()}({script}) 2>&1")
    assert "Description: a small image" in done.stdout
    assert f"These programs run in {folder}/small-1.0.sif:\npython3, lumi-entry, lumi-v" in (
        done.stdout
    )
    assert f"{folder}/small-2.0.sif" in done.stdout
    avail = done.stdout.partition("Where:")[0]
    assert "small/1.0 (D)" in avail or "small/1.0(default)" in avail


def test_one_version_takes_the_place_of_another(system: System, write: Write, folder: Path) -> None:
    script = f"{write()}module load small/1.0; module swap small/1.0 small/2.0\n{SHOW}"
    sif, binds, *_, path = system.shell(script).stdout.splitlines()
    assert (sif, binds) == (f"{folder}/small-2.0.sif", "/srv")
    assert "small/2.0/bin:" in path
    assert "small/1.0" not in path


@pytest.mark.parametrize("first", ["small/2.0", "lumi-binds/1"])
def test_of_two_with_binds_one_loads(system: System, write: Write, site: Path, first: str) -> None:
    use = write()
    other = site / "modules/lumi-binds"
    other.mkdir()
    lua, tcl = LUMI_BINDS
    (other / "1.lua").write_text(lua)
    (other / "1").write_text(tcl)
    done = system.shell(f'{use}module load {first}; module load small/1.0; echo "$LOADEDMODULES"')
    loaded = done.stdout.strip().split(":")
    # Lmod replaces the first one; Environment Modules refuses the second one.
    assert len(loaded) == 1, done.stdout
    assert loaded == ["small/1.0" if not system.options else first]


def test_a_module_without_image_is_not_loaded(system: System, write: Write, folder: Path) -> None:
    use = write()
    (folder / "small-1.0.sif").unlink()
    done = system.shell(f'{use}module load small; echo "[$LOADEDMODULES]"; module unload small')
    assert done.stdout == "[]\n"
    said = " ".join(done.stderr.split())
    assert f"image not found: {folder}/small-1.0.sif hint: copy it there" in said
