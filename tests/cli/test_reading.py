"""The verbs that read: what they print, where, and with which exit code."""

import errno
import io
import json
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from lumicontainer import cli
from lumicontainer.api.documents import DOCUMENTS
from lumicontainer.commands import show
from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import Problems

from ..conftest import ROOT
from ..programs import run
from .conftest import Ask, Hello, Run, refused, succeeded
from .test_cache import make_image

SETS = {
    "hello.yaml": "summary: x\nbase: tiny\nprofiles: [calm, loud]\nlayers: [greet]\n",
    "profiles/calm.yaml": "summary: quiet\naccelerator: cpu\nvalues: {greet: {greeting: calm}}\n",
    "profiles/loud.yaml": "summary: not so\naccelerator: cpu\nvalues: {greet: {greeting: LOUD}}\n",
    "layers/tiny/layer.yaml": (
        "summary: x\nbootstrap: {cpu: {agent: docker, docker_image: 'ubuntu:noble'}}\n"
        "binds: [{path: /opt/cray, reason: the host's network, source: its makers}]\n"
        'provides: {python: "3.12"}\n'
    ),
}


def test_list_names_documents_of_each_kind(lumicontainer: Run, ask: Ask, hello: Hello) -> None:
    words = ("list", *hello(SETS)[1:])
    done = lumicontainer(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  workstation " in done.stdout
    assert "(this host)" in done.stdout
    data = ask(*words)
    assert {"hello", "pytorch-deepspeed"} <= set(data["recipes"])
    assert {"greet", "deepspeed"} <= set(data["layers"])
    assert {"workstation", "lumi-g"} <= set(data["platforms"])
    assert data["profiles"]["calm"] == "quiet"
    assert data["platform_here"] == "workstation"


def test_a_platform_is_here_if_all_its_paths_are(ask: Ask, hello: Hello, tmp_path: Path) -> None:
    text = "summary: here\naccelerator: cpu\ndetect:\n"
    for paths, platform in (([tmp_path], "here"), ([tmp_path, tmp_path / "none"], "workstation")):
        words = hello({"envs/here.yaml": text + "".join(f"  - {path}\n" for path in paths)})
        assert ask("list", *words[1:])["platform_here"] == platform


def test_lumi_is_known_by_its_software() -> None:
    assert dict(open_catalog().detected(Problems()))["lumi-g"] == ("/appl/lumi",)


def test_a_host_is_not_lost_to_an_unfinished_platform_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/lumi-g.yaml").write_text("summary: x\n")
    problems = Problems()
    assert dict(open_catalog(tmp_path).detected(problems))["lumi-g"] == ("/appl/lumi",)
    assert problems.noted


def test_an_unfinished_platform_is_in_the_way_of_no_other(
    lumicontainer: Run, ask: Ask, hello: Hello
) -> None:
    words = hello({**SETS, "envs/bad.yaml": "summary: x\naccelerator: cpu\ndrivr: '6'\n"})
    done = lumicontainer("show", *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: platform has no key 'drivr'") == 1
    assert "bad.yaml:3:1" in done.stderr
    refused(lumicontainer("show", *words, "--platform", "bad"), "platform has no key 'drivr'")
    data = json.loads(lumicontainer("list", *words[1:], "--json").stdout)
    assert data["platform_here"] == "workstation"
    assert data["platforms"]["bad"] == "(cannot be read)"


def test_show_prints_each_value_and_its_origin(lumicontainer: Run, ask: Ask, hello: Hello) -> None:
    done = lumicontainer("show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_AIO=true")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  DS_")}
    assert "the recipe, " in lines["DS_BUILD_FUSED_ADAM"]
    assert "pytorch-deepspeed.yaml:" in lines["DS_BUILD_FUSED_ADAM"]
    assert "the command line, --set deepspeed" in lines["DS_BUILD_AIO"]
    assert "the layer's default" in lines["DS_BUILD_GDS"]
    words = ("show", *hello(SETS))
    done = lumicontainer(*words, "--profile", "loud")
    assert "profile loud: not so\n" in done.stdout
    assert "bind /opt/cray\n    the host's network [its makers]\n" in done.stdout
    assert "not pinned: image ubuntu:noble\n" in done.stdout
    assert re.search(r"  greeting  LOUD +the profile, \S+loud.yaml:3:28\n", done.stdout)
    data = ask(*words)
    assert data["profile"] == "calm"
    assert data["binds"][0]["path"] == "/opt/cray"
    assert data["layers"]["greet"]["origins"]["greeting"] == "profile"


SHOWN = {
    "lumi-g": (
        "# platform lumi-g\nname: lumi-g\nsummary: a LUMI-G node",
        "- pci: 0000:c1:00.0\n  cores: 49-55\n  numa: 3\n  reserved: '48'\n",
        "\n    network: disable_rdzv_get\n",
        "\n- path: /var/spool/slurmd\n",
        "\nproot: module load ",
    ),
    "rocm-7.0.2": ("# profile rocm-7.0.2\n", "\n  pytorch:\n    version: 2.10.0+rocm7.0\n"),
    "deepspeed": (
        "# layer deepspeed\nname: deepspeed\nsummary: DeepSpeed, its ops compiled ahead of time\n",
        "\n  choices:\n  - x86-64-v3\n  - x86-64-v4\n  - znver3\n",
        "\nrequires:\n- pytorch\n",
        "\n    compile: compile-rocm.sh\n",
        "\n  0.18.9:\n    sources:\n    - sdist: deepspeed\n      sha256: ee48",
        "\n    rocm: it needs NVIDIA's cuFile\n",
        "\n- name: deepspeed/training\n",
    ),
}
"""Some of what is printed of a platform, a profile and a layer."""


@pytest.mark.parametrize("name", SHOWN)
def test_show_prints_all_of_a_document(lumicontainer: Run, name: str) -> None:
    done = succeeded(lumicontainer("show", name))
    assert done.stdout.startswith(SHOWN[name][0])
    assert [text for text in SHOWN[name] if text not in done.stdout] == []
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_show_prints_lists_among_the_values_of_a_profile(ask: Ask, hello: Hello) -> None:
    layer = "summary: x\nparameters: {uses: {type: layers, default: [tiny], choices: [tiny]}}\n"
    variant = "variants: {cpu: {parameters: {uses: [tiny]}}}\n"
    files = {
        "layers/greet/layer.yaml": layer + variant,
        "profiles/calm.yaml": "summary: x\naccelerator: cpu\nvalues: {greet: {uses: [tiny]}}\n",
    }
    folder = hello(files)[1:]
    assert ask("show", "calm", *folder)["values"] == {"greet": {"uses": ["tiny"]}}
    shown = ask("show", "greet", "--kind", "layer", *folder)
    assert shown["variants"]["cpu"]["parameters"] == {"uses": ["tiny"]}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_shipped_document_can_be_shown(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    unused = {"recipes": None, "platform": None, "profile": "", "options": []}
    for name in open_catalog().names(kind):
        shown = []
        for as_json in (False, True):
            show.run(Namespace(recipe=name, kind=kind, json=as_json, **unused))
            shown.append(yaml.safe_load(capsys.readouterr().out))
        assert shown[0] == shown[1]
        assert shown[0]["name"] == name


def test_show_prints_left_out_layers_and_unpinned_inputs(lumicontainer: Run, ask: Ask) -> None:
    data = ask("show", "pytorch-deepspeed")
    assert set(data["omitted"]) == {"rocm", "slingshot", "rccl-plugin", "flash-attention"}
    assert "apt libfabric1" in data["layers"]["libfabric"]["not_pinned"]
    assert data["layers"]["horovod"]["places"]["version"].endswith("layer.yaml:4:10")
    text = lumicontainer("show", "pytorch-deepspeed").stdout
    assert text.count("left out: ") == 4
    assert "not pinned: apt libfabric1, apt libfabric-bin\n" in text
    folded = text.partition("training-packages: ")[2].splitlines()
    assert max(map(len, folded)) <= 100


def test_show_prints_the_packages_of_wheels_only(ask: Ask, hello: Hello) -> None:
    files = ("My_Lib-1.5-py3-none-any.whl", "thing.whl", "thing-1.0.whl")
    rows = "".join(f"  - {{url: 'https://a.example/{f}', file: {f}}}\n" for f in files)
    layer = f"summary: x\nsources:\n{rows}"
    script = 'pip install "$sources"/*.whl\n'
    words = hello({"layers/greet/layer.yaml": layer, "layers/greet/install.sh": script})
    assert ask("show", *words)["layers"]["greet"]["packages"] == {"python": ["my-lib==1.5"]}


@pytest.mark.parametrize("verb", ["show", "render", "build --dry-run", "cache explain"])
def test_an_unknown_profile_is_refused(lumicontainer: Run, hello: Hello, verb: str) -> None:
    done = lumicontainer(*verb.split(), *hello(SETS), "--profile", "lout")
    refused(done, "did you mean 'loud'?")


@pytest.mark.parametrize("form", ["def", "dockerfile"])
def test_render_prints_the_same_document_every_time(lumicontainer: Run, form: str) -> None:
    words = ("render", "pytorch-deepspeed", "--format", form)
    first = lumicontainer(*words)
    other = {"TZ": "Asia/Tokyo", "LANG": "C", "PYTHONHASHSEED": "7"}
    assert first.stdout == lumicontainer(*words, env=other).stdout != ""


def test_render_prints_how_lumi_builds_the_document(lumicontainer: Run) -> None:
    done = succeeded(lumicontainer("render", "rocm", "--platform", "lumi-g"))
    assert done.stdout.startswith("# Made by lumicontainer")
    note, line = done.stderr.splitlines()
    assert "to build rocm.def on a compute node of lumi-g" in note
    assert line.startswith("module load ")
    assert line.endswith(" singularity build rocm.sif rocm.def")
    for words in (["--format", "dockerfile"], ["--platform", "workstation"]):
        assert lumicontainer("render", "rocm", "--platform", "lumi-g", *words).stderr == ""


def test_a_dry_run_prints_the_steps_alone(lumicontainer: Run, ask: Ask, hello: Hello) -> None:
    *_, folder = words = hello(SETS)
    before = sorted(folder.rglob("*"))
    done = succeeded(lumicontainer("build", *words, "--dry-run", cwd=folder))
    assert "greet" in done.stdout
    assert "image ubuntu:noble  not pinned" in done.stdout
    assert sorted(folder.rglob("*")) == before
    data = ask("build", *words, "--dry-run")
    assert [step["name"] for step in data["steps"]] == ["greet", "lumicontainer"]
    assert data["steps"] == ask("show", *words)["steps"]


def test_an_image_that_is_damaged_is_not_up_to_date(ask: Ask, hello: Hello, tmp_path: Path) -> None:
    output = tmp_path / "x.sif"
    words = ("build", *hello(), "--output", output, "--dry-run")
    whole = make_image(output, ask(*words)["steps"][-1]["key"]).read_bytes()
    damaged = {whole: True, whole[:-1]: False, whole.replace(b'{"data"', b'?"data"'): False}
    for content, current in damaged.items():
        output.write_bytes(content)
        assert ask(*words)["up_to_date"] == current


@pytest.mark.parametrize("text", ["sumary: x\n", "summary: [\n"])
@pytest.mark.parametrize(
    "broken",
    ["broken.yaml", "profiles/broken.yaml", "layers/broken/layer.yaml", "envs/broken.yaml"],
)
def test_a_broken_document_hides_no_other(
    lumicontainer: Run, hello: Hello, broken: str, text: str
) -> None:
    done = lumicontainer("list", *hello({broken: text})[1:])
    assert done.returncode == 2
    for word in ("hello", "greet", "deepspeed", "rocm-6.4.4", "lumi-g", "workstation"):
        assert f"  {word} " in done.stdout
    assert f"{broken}:" in done.stderr
    assert done.stderr.count("has no key 'sumary'") == text.startswith("sumary")


def test_doctor_reports_what_this_host_can_do(ask: Ask) -> None:
    findings = {each["what"]: each for each in ask("doctor")}
    assert findings["engine"]["state"] == "ok"


def test_doctor_reports_what_is_missing_with_a_hint(lumicontainer: Run, tmp_path: Path) -> None:
    done = lumicontainer("doctor", env={"LUMICONTAINER_TMPDIR": str(tmp_path / "missing")})
    assert done.returncode == 1
    assert "✗ disk space" in done.stdout
    assert "LUMICONTAINER_TMPDIR" in done.stdout


@pytest.mark.parametrize(
    ("mirror", "row"),
    [
        ("https://debian.example/debian", "✓ Debian mirror: taken from LUMICONTAINER_MIRROR\n"),
        ("foo", "✗ Debian mirror: invalid URL of a mirror of Debian: 'foo'\n"),
    ],
)
def test_doctor_names_the_source_of_debian_s_mirror(
    lumicontainer: Run, mirror: str, row: str
) -> None:
    assert row in lumicontainer("doctor", env={"LUMICONTAINER_MIRROR": mirror}).stdout


@pytest.mark.parametrize(
    ("place", "seen"),
    [
        ("file", "the cache is not a folder"),
        ("open", "the cache is not private"),
        ("/proc/nosuch/cache", "cannot write to the cache"),
    ],
)
def test_doctor_reports_a_cache_that_no_build_can_use(
    lumicontainer: Run, tmp_path: Path, place: str, seen: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    done = lumicontainer("doctor", env={"LUMICONTAINER_CACHE": str(tmp_path / place)})
    assert done.returncode == 1
    assert f"✗ cache: {seen}: {tmp_path / place}" in done.stdout
    assert "name another place with LUMICONTAINER_CACHE" in done.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "file", "open"]


FULL = (
    "error: cannot read or write this path\n  where: /dev/stdout\n"
    "    why: No space left on device\n   hint: free some space\n"
)
BAD = "--profile rocm-7.0.2 --set mpich.provider=host --set mpich.version=4.3.2"


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("list >/dev/full", 8, FULL),
        ("completion bash >/dev/full", 8, FULL),
        ("--help >/dev/full", 8, FULL),
        ("--version >/dev/full", 8, FULL),
        ("help build >/dev/full", 8, FULL),
        ("build --help | true", 0, ""),
        ("list >&-", 0, ""),
        ("show nothing 2>&-", 2, ""),
        ("list | true", 0, ""),
        ("render pytorch-deepspeed | head -n 1", 0, ""),
        (f"check rocm --platform lumi-g {BAD} | true", 1, ""),
    ],
)
def test_exit_code_and_error_do_not_depend_on_the_reader(words: str, code: int, error: str) -> None:
    command = f"{sys.executable} -m lumicontainer {words}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, error)


def test_a_lost_file_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises the same error as for a pipe without a reader."""

    def lost(*_: object) -> list[str]:
        raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN), "/appl/lumi")

    monkeypatch.setattr("lumicontainer.core.catalog.Catalog.names", lost)
    monkeypatch.setattr(sys, "stderr", printed := io.StringIO())
    assert cli.main(["list"]) == 3
    assert "/appl/lumi" in printed.getvalue()


@pytest.mark.parametrize("words", ["list", "doctor", "init x", "check pytorch"])
def test_a_current_folder_that_was_removed_is_named(tmp_path: Path, words: str) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = f"rmdir {folder} && exec {sys.executable} -m lumicontainer {words}"
    done = run(["bash", "-c", command], cwd=folder, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (
        3,
        "error: the current folder does not exist\n   hint: cd to a folder that exists\n",
    )


def test_what_the_system_refuses_has_its_path_and_a_hint(lumicontainer: Run) -> None:
    done = lumicontainer("init", "x", "/proc/self/net/x")
    says = (
        "error: cannot read or write this path\n  where: /proc/self/net/x\n",
        "   hint: create what is missing, or name another path\n",
    )
    refused(done, *says, code=3)


def test_show_of_a_name_of_two_kinds_says_how_to_print_the_other(lumicontainer: Run) -> None:
    done = lumicontainer("show", "pytorch")
    assert "lumicontainer show pytorch --kind layer" in done.stderr
    other = lumicontainer("show", "pytorch", "--kind", "layer")
    assert other.stdout.startswith("# layer pytorch\n")
    assert other.stderr == ""
