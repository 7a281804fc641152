"""No code of a recipe, a source or a wheel runs on the host, whatever is written."""

import ast
import subprocess
import sys
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

import lumicontainer
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError
from lumicontainer.frontends import kernel
from lumicontainer.host.docker.base import BaseSpec
from lumicontainer.host.docker.container import invocation
from lumicontainer.host.site import pip_settings
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.uv import Resolver
from lumicontainer.pinning.wheels import Query, Target
from lumicontainer.system import process
from lumicontainer.system.process import ProgramError

from ..pinning.test_pin import BASE, Locked, locked, printed, progress, python
from ..pinning.test_wheels import Offer, offer

__all__ = ["locked", "offer", "printed", "progress"]

Resolve = Callable[..., Resolved]
OWN_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PROJECT = """\
[build-system]
requires = []
build-backend = "canary"
backend-path = ["."]
[project]
name = "evil"
version = "1.0"
"""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Return a file that the code of the attacks would write."""
    return tmp_path / "canary"


@pytest.fixture
def source(tmp_path: Path, canary: Path) -> Path:
    """Return a source whose own backend, and whose setup.py, writes the canary."""
    folder = tmp_path / "evil"
    folder.mkdir()
    writes = f"open({str(canary)!r}, 'a').write('it ran')\n"
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "canary.py").write_text(writes)
    (folder / "setup.py").write_text(writes)
    return folder


@pytest.fixture
def archive(source: Path, tmp_path: Path, offer: Offer) -> Path:
    path = tmp_path / "wheels/evil-1.0.tar.gz"
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    with tarfile.open(path, "w:gz") as file:
        file.add(source, "evil-1.0")
    return path


@pytest.fixture
def downloaded(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: a project whose files have the names of modules."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("pip", "json", "ipykernel", "importlib", "runpy", "lumicontainer"):
        (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write('it ran')\n")
    return folder


def test_files_of_the_current_folder_would_be_modules_to_another_python(
    downloaded: Path, canary: Path
) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--version"], check=False, capture_output=True)
    assert canary.exists()


def test_files_of_the_current_folder_are_no_modules(
    downloaded: Path, canary: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("tiny", "1.0")
    pip_settings()
    Pip(Target(OWN_VERSION, "2.36")).wheels(Query(["tiny"]))
    commands = [
        process.module_command("lumicontainer.sandbox.tree.capture"),
        invocation("lumicontainer.host.docker.base", BaseSpec("", "", "")),
        process.own_python("-m", "lumicontainer", "--version"),
        [sys.executable, "-c", kernel._METADATA],
    ]
    for command in commands:
        subprocess.run(command, check=False, capture_output=True)
    assert not canary.exists()


def test_no_command_of_the_package_runs_a_module_that_the_current_folder_could_have() -> None:
    """``own_python`` has the option of Python; in images, older ones have none."""
    package = Path(lumicontainer.__file__).parent
    files = [each for each in package.rglob("*.py") if "inside" not in each.parts]
    commands = {
        f"{each.relative_to(package)}:{node.lineno}"
        for each in files
        for node in ast.walk(ast.parse(each.read_bytes()))
        if isinstance(node, ast.List | ast.Tuple) and _starts_module(node.elts)
    }
    (in_a_container,) = commands
    assert in_a_container.startswith("pinning/scripts/ask_for_builds.py:")


def _starts_module(words: list[ast.expr]) -> bool:
    has_python = any(isinstance(w, ast.Attribute) and w.attr == "executable" for w in words)
    texts = [each.value for each in words if isinstance(each, ast.Constant)]
    return has_python and "-m" in texts and "-P" not in texts


def test_the_canary_is_written_where_pip_is_asked_as_it_is(archive: Path, canary: Path) -> None:
    """Prove that the attack works: otherwise the tests below would say nothing."""
    words = ["download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]
    to = ["--dest", str(archive.parent), "evil==1.0"]
    subprocess.run([sys.executable, "-m", "pip", *words, *to], capture_output=True, check=False)
    assert canary.exists()


@pytest.mark.parametrize("python", [OWN_VERSION, "3.7"])
def test_the_hash_of_a_source_needs_no_code(archive: Path, canary: Path, python: str) -> None:
    assert Pip(Target(python)).source("evil==1.0") == sha256(archive.read_bytes()).hexdigest()
    assert not canary.exists()


def test_a_source_that_is_not_there_is_reported(offer: Offer) -> None:
    with pytest.raises(ProgramError, match="No matching distribution found"):
        Pip(Target(OWN_VERSION)).source("evil==2.0")


FORMS = ("evil @ {uri}", "{uri}", "{folder}", "git+{uri}", "-e{folder}", "evil-1.0.tar.gz")


@pytest.mark.parametrize("form", FORMS)
def test_pip_builds_nothing_of_what_it_is_asked_for(
    source: Path, archive: Path, canary: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(archive.parent)
    requirement = form.format(uri=source.as_uri(), folder=source)
    with pytest.raises(ProgramError):
        Resolver(Target(OWN_VERSION), print).wheels(Query([requirement]))
    assert not canary.exists()


def test_pip_builds_no_url_that_a_wheel_names(offer: Offer, source: Path, canary: Path) -> None:
    offer("tool", "1.0", f"evil @ {source.as_uri()}")
    with pytest.raises(ProgramError, match="would run code of its own"):
        Resolver(Target(OWN_VERSION), print).wheels(Query(["tool==1.0"]))
    assert not canary.exists()


URLS = [
    *("file:///tmp/evil", "git+https://a.example/evil", "https://a.example/evil.tar.gz"),
    *("git+ssh://git@a.example/x", "ssh://a.example/x", "evil@file:///tmp/evil"),
    *("evil[x]@https://a.example/", "evil===/tmp/evil"),
    *("./evil", "evil/", "/tmp/evil", "a/../evil", "..", ".", "C:\\evil"),
    *("evil.zip", "evil-1.tar.gz", "EVIL-1.0-py3-none-any.WHL"),
]
OPTIONS = ("-r /etc/passwd", "--index-url=https://a.example", "-e .", "--no-index", "-f/tmp")
OTHERS = ("numpy==1\\n--index-url https://a.example", "evil @ file:///tmp/evil", "a b")
WRONG = (*URLS, *OPTIONS, *OTHERS, "numpy==", "numpy==1 --hash=x", "\\e[2J")


@pytest.mark.parametrize("text", [*WRONG, "x==1; python_version>'3'"])
def test_a_requirement_is_a_name_with_versions_or_is_refused(resolved: Resolve, text: str) -> None:
    layer = f'summary: x\npackages:\n  python:\n    - "{text}"\n'.replace("C:\\", "C:\\\\")
    with pytest.raises(InputError) as raised:
        resolved({"layers/greet/layer.yaml": layer})
    (problem,) = raised.value.problems
    assert problem.what.startswith("expected a requirement such as numpy==2.3.4, got ")
    assert problem.where.endswith("greet/layer.yaml:4:7")
    assert problem.hint
    assert problem.what.isprintable()


@pytest.mark.parametrize("name", ["requirements.txt", "tools.txt", "build.txt", "rocm/build.txt"])
@pytest.mark.parametrize("text", [*URLS, *OPTIONS])
def test_requirements_files_hold_such_names_alone(resolved: Resolve, name: str, text: str) -> None:
    with pytest.raises(InputError) as raised:
        resolved({f"layers/greet/{name}": f"# what it needs\n  six==1.17.0\n  {text}\n"})
    (problem,) = raised.value.problems
    assert problem.where.endswith(f"greet/{name}:3:3")
    assert problem.hint


def test_another_file_is_judged_if_it_holds_only_what_pip_reads(resolved: Resolve) -> None:
    resolved({"layers/greet/notes.txt": "see https://a.example and\nnumpy==1\nfor the reason\n"})
    with pytest.raises(InputError, match=r"more\.txt:2:1"):
        resolved({"layers/greet/more.txt": "six==1.17.0\nevil @ file:///tmp/evil\n"})


@pytest.mark.parametrize(
    "text",
    ["a==1\nb>=2,<3\nc[x,y]~=1.4\n", f"a==1 \\\n    --hash=sha256:{'0' * 64}\n", "a\n", "a ==1.*"],
)
def test_names_with_versions_extras_and_hashes_are_taken(resolved: Resolve, text: str) -> None:
    resolved({"layers/greet/requirements.txt": text})


@pytest.mark.parametrize("version", ["1 @ file:///tmp/evil", "1\n-e /tmp/evil", "1.zip", "", "x y"])
def test_a_version_that_pip_is_given_is_a_version(resolved: Resolve, version: str) -> None:
    layer = "summary: x\nversion: '1.0'\nsources: [{sdist: evil}]\n"
    with pytest.raises(InputError, match=r"greet\.version") as raised:
        resolved({"layers/greet/layer.yaml": layer}, f"greet.version={version}")
    assert "of the Python package 'evil'" in str(raised.value)


@pytest.mark.parametrize(
    "index", ["http://a.example/whl", "file:///tmp", "/tmp", "https://me:secret@a.example/", "-f x"]
)
def test_an_index_of_a_layers_own_is_a_url_by_https(resolved: Resolve, index: str) -> None:
    layer = (
        "summary: x\nversion: '1.0'\npip_installs: [{package: torch, index_parameter: from}]\n"
        "parameters: {from: {type: string, default: 'https://wheels.example/cpu'}}\n"
    )
    resolved({"layers/greet/layer.yaml": layer})
    with pytest.raises(InputError, match="invalid index of Python packages"):
        resolved({"layers/greet/layer.yaml": layer}, f"greet.from={index}")


APT_WORDS = [
    *("less-", "less=590-2-", "less/stable", "less=", "less=a", "less:", "less=1 2"),
    *("-o=x", "--purge", "less*", "^x", "~nless", "?name(x)", "less\\n"),
    *("LESS", "l", "less_x", "./evil.deb", "/tmp/x.deb"),
]


@pytest.mark.parametrize("word", APT_WORDS)
def test_a_word_that_apt_reads_as_more_than_a_name_is_refused(resolved: Resolve, word: str) -> None:
    layer = f'summary: x\npackages:\n  apt: ["{word}"]\n'
    with pytest.raises(InputError, match="the name of a Debian package, such as make or") as raised:
        resolved({"layers/greet/layer.yaml": layer})
    assert raised.value.problems[0].where.endswith("greet/layer.yaml:3:9")


@pytest.mark.parametrize(
    "word",
    ["g++", "libstdc++6=12.2.0-14+deb12u1", "g++=4:12.2.0-3", "libc6:i386", "python3.11", "7zip"],
)
def test_packages_as_debian_names_them_are_taken(resolved: Resolve, word: str) -> None:
    resolution = resolved(
        {"layers/greet/layer.yaml": f"summary: x\npackages: {{apt: ['{word}']}}\n"}
    )
    assert resolution.layers[1].content.apt == (word,)


def test_debootstrap_is_given_names_without_versions(resolved: Resolve) -> None:
    base = BASE.replace(
        "docker, docker_image: 'IMAGE'", "debootstrap, release: x, docker_image: x, include: [WORD]"
    )
    for word in ("less=1", "less-", "less,evil"):
        with pytest.raises(InputError, match="the name of a Debian package"):
            resolved({"layers/tiny/layer.yaml": base.replace("WORD", f"'{word}'")})


def test_a_lock_holds_what_it_can_of_a_layer_with_an_evil_wheel(
    locked: Locked, offer: Offer, source: Path, canary: Path
) -> None:
    offer("tool", "1.0", f"evil @ {source.as_uri()}")
    offer("lib", "1.0")
    lock, _ = locked({"one/layer.yaml": python("tool==1.0"), "two/layer.yaml": python("lib==1.0")})
    assert not canary.exists()
    assert lock.of("one")[0].open
    assert lock.of("two")[0].pin.startswith("lib==1.0 ")


def test_a_source_with_its_hash_may_come_by_plain_http(resolved: Resolve) -> None:
    source = f"{{url: 'http://a.example/x', file: x, sha256: '{'0' * 64}'}}"
    layer = f"summary: x\nsources: [{source}]\n"
    resolved({"layers/greet/layer.yaml": layer, "layers/greet/install.sh": 'ls "$sources"\n'})
