"""The verbs that read: what they print, where, and with which exit code."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer import cli
from lumicontainer.commands import show_parts
from lumicontainer.commands.parser import VERBS
from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import Problems
from lumicontainer.image import sif
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.system.terminal.output import as_json

from ..conftest import HELLO, Write
from .conftest import Run


def test_list_names_recipes_layers_and_platforms(lumicontainer: Run) -> None:
    done = lumicontainer("list")
    assert done.returncode == 0
    assert done.stderr == ""
    for word in ("pytorch-deepspeed", "deepspeed", "workstation", "lumi-g"):
        assert word in done.stdout


def test_list_as_json_says_which_platform_this_is(lumicontainer: Run) -> None:
    data = json.loads(lumicontainer("list", "--json").stdout)
    assert "pytorch-deepspeed" in data["recipes"]
    assert data["platform_here"] == "workstation"


def test_a_platform_is_this_one_where_all_its_paths_are_there(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    text = "summary: here\naccelerator: cpu\ndetect:\n"
    for paths, found in (([tmp_path], "here"), ([tmp_path, tmp_path / "none"], "workstation")):
        rows = "".join(f"  - {path}\n" for path in paths)
        folder = write({**HELLO, "envs/here.yaml": text + rows})
        data = json.loads(lumicontainer("list", "--json", "--recipes", folder).stdout)
        assert data["platform_here"] == found


def test_lumi_is_known_by_its_software() -> None:
    assert dict(open_catalog().detected())["lumi-g"] == ("/appl/lumi",)


def test_a_users_own_recipes_stand_beside_the_shipped_ones(
    lumicontainer: Run, write: Write
) -> None:
    data = json.loads(lumicontainer("list", "--json", "--recipes", write(HELLO)).stdout)
    assert {"hello", "pytorch-deepspeed"} <= set(data["recipes"])
    assert {"greet", "deepspeed"} <= set(data["layers"])


def test_show_tells_each_value_and_where_it_came_from(lumicontainer: Run) -> None:
    done = lumicontainer("show", "pytorch-deepspeed", "--set", "deepspeed.DS_BUILD_AIO=true")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  DS_")}
    assert "the recipe, " in lines["DS_BUILD_FUSED_ADAM"]
    assert "pytorch-deepspeed.yaml:" in lines["DS_BUILD_FUSED_ADAM"]
    assert "the command line, --set deepspeed" in lines["DS_BUILD_AIO"]
    assert "the layer's default" in lines["DS_BUILD_GDS"]


def test_show_tells_what_a_platform_says_of_its_nodes_and_variables(lumicontainer: Run) -> None:
    done = lumicontainer("show", "lumi-g")
    assert done.returncode == 0, done.stderr
    assert "gpu 0  0000:c1:00.0  cores 49-55, core 48 reserved, NUMA node 3\n" in done.stdout
    row = "variable NCCL_NET_GDR_LEVEL=PHB  when device cxi, rocm <6.2\n"
    why = done.stdout.partition(row)[2].partition("\n")[0]
    assert "from ROCm 6.2 on" in why
    assert "shs-ccl-docs" in why
    assert "discouraged NCCL_NET_GDR_LEVEL: PHB|SYS|3  when rocm >=7\n" in done.stdout
    assert "discouraged MIOPEN_USER_DB: any value\n" in done.stdout
    data = json.loads(lumicontainer("show", "lumi-g", "--json").stdout)
    assert {"name", "reason", "source", "hint"} <= data["discouraged"][0].keys()
    assert [gpu["numa"] for gpu in data["gpus"]] == [3, 3, 1, 1, 0, 0, 2, 2]
    names = {each["name"]: each for each in data["variables"]}
    assert names["FI_CXI_RDZV_PROTO"]["when"]["network"] == "disable_rdzv_get"
    assert {each["storage"] for each in data["caches"]} == {"node", "scratch"}


def test_show_says_why_a_layer_is_left_out(lumicontainer: Run) -> None:
    data = json.loads(lumicontainer("show", "pytorch-deepspeed", "--json").stdout)
    assert set(data["omitted"]) == {"rocm", "slingshot", "rccl-plugin", "flash-attention"}
    text = lumicontainer("show", "pytorch-deepspeed").stdout
    assert text.count("left out: ") == 4


def test_show_marks_every_input_that_no_hash_holds(lumicontainer: Run) -> None:
    data = json.loads(lumicontainer("show", "pytorch-deepspeed", "--json").stdout)
    assert "apt libfabric1" in data["layers"]["libfabric"]["not_pinned"]
    assert data["layers"]["horovod"]["places"]["version"].endswith("layer.yaml:3:10")


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


def test_show_tells_the_profile_and_what_it_decided(lumicontainer: Run, write: Write) -> None:
    folder = write({**HELLO, **SETS})
    done = lumicontainer("show", "hello", "--recipes", folder, "--profile", "loud")
    assert done.returncode == 0, done.stderr
    assert "profile loud: not so\n" in done.stdout
    assert "bind /opt/cray\n    the host's network [its makers]\n" in done.stdout
    assert "not pinned: image ubuntu:noble\n" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("  greeting"))
    assert row.split("  ")[1:3] == ["greeting", "LOUD"]
    assert "the profile, " in row
    assert "loud.yaml:3:28" in row
    data = json.loads(lumicontainer("show", "hello", "--recipes", folder, "--json").stdout)
    assert data["profile"] == "calm"
    assert data["binds"][0]["path"] == "/opt/cray"
    assert data["layers"]["greet"]["origins"]["greeting"] == "profile"


def test_show_tells_the_packages_of_wheels_and_of_a_file_that_is_called_like_one_none(
    lumicontainer: Run, write: Write
) -> None:
    files = ("My_Lib-1.5-py3-none-any.whl", "thing.whl", "thing-1.0.whl")
    rows = "".join(f"  - {{url: 'https://a.example/{f}', file: {f}}}\n" for f in files)
    layer = f"summary: x\nsources:\n{rows}"
    script = 'pip install "$sources"/*.whl\n'
    folder = write({**HELLO, "layers/greet/layer.yaml": layer, "layers/greet/install.sh": script})
    done = lumicontainer("show", "hello", "--recipes", folder, "--json")
    assert done.returncode == 0, done.stderr
    packages = json.loads(done.stdout)["layers"]["greet"]["packages"]
    assert packages == {"python": ["my-lib==1.5"]}


def test_list_names_the_profiles(lumicontainer: Run, write: Write) -> None:
    folder = write({**HELLO, **SETS})
    data = json.loads(lumicontainer("list", "--json", "--recipes", folder).stdout)
    assert data["profiles"]["calm"] == "quiet"
    assert "profiles\n" in lumicontainer("list", "--recipes", folder).stdout


def test_an_unknown_profile_is_refused_by_each_verb_that_takes_one(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**HELLO, **SETS})
    for verb in (["show"], ["render"], ["build", "--dry-run"], ["cache", "explain"]):
        done = lumicontainer(*verb, "hello", "--recipes", folder, "--profile", "lout")
        assert done.returncode == 2, verb
        assert "did you mean 'loud'?" in done.stderr


def test_a_dry_run_tells_the_base_and_what_is_not_pinned_of_it(
    lumicontainer: Run, write: Write
) -> None:
    folder = write({**HELLO, **SETS})
    done = lumicontainer("build", "hello", "--recipes", folder, "--dry-run", cwd=folder)
    assert "image ubuntu:noble  not pinned" in done.stdout


@pytest.mark.parametrize("form", ["def", "dockerfile"])
def test_render_prints_the_same_document_every_time(lumicontainer: Run, form: str) -> None:
    first = lumicontainer("render", "pytorch-deepspeed", "--format", form)
    assert first.returncode == 0, first.stderr
    other = {"TZ": "Asia/Tokyo", "LANG": "C", "PYTHONHASHSEED": "7"}
    assert (
        first.stdout
        == lumicontainer("render", "pytorch-deepspeed", "--format", form, env=other).stdout
    )


def test_render_says_how_lumi_builds_it_beside_the_document(lumicontainer: Run) -> None:
    done = lumicontainer("render", "rocm", "--platform", "lumi-g")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Made by lumicontainer")
    note, line = done.stderr.splitlines()
    assert "rocm.def is built by" in note
    assert line.startswith("module load ")
    assert line.endswith(" singularity build rocm.sif rocm.def")
    for words in (["--format", "dockerfile"], ["--platform", "workstation"]):
        assert lumicontainer("render", "rocm", "--platform", "lumi-g", *words).stderr == ""


def test_a_dry_run_prints_the_steps_and_does_nothing(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    done = lumicontainer("build", "hello", "--recipes", folder, "--dry-run", cwd=folder)
    assert done.returncode == 0
    assert "greet" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["hello.yaml", "layers"]
    data = json.loads(
        lumicontainer("build", "hello", "--recipes", folder, "--dry-run", "--json").stdout
    )
    assert [step["name"] for step in data["steps"]] == ["greet", "lumicontainer"]


def test_an_image_that_is_damaged_is_not_up_to_date(
    lumicontainer: Run, write: Write, tmp_path: Path
) -> None:
    output = tmp_path / "x.sif"
    words = ("build", "hello", "--recipes", write(HELLO), "--output", output, "--dry-run", "--json")
    key = json.loads(lumicontainer(*words).stdout)["steps"][-1]["key"]
    attributes = {"labels": {KEY_LABEL: key}}
    layout = sif.layout("", {"data": {"attributes": attributes}, "type": "container"})
    output.write_bytes(b"x" * (layout.offset + 5000))
    sif.complete(output, layout, [sif.Partition(layout.offset, 5000)])
    whole = output.read_bytes()
    damaged = {whole: True, whole[:-1]: False, whole.replace(b'{"data"', b'?"data"'): False}
    for content, current in damaged.items():
        output.write_bytes(content)
        done = lumicontainer(*words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["up_to_date"] == current


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_completion_is_right_in_the_shells_own_eyes(lumicontainer: Run, shell: str) -> None:
    script = lumicontainer("completion", shell).stdout
    assert "pytorch-deepspeed" not in script
    for word in ("render", "--dry-run", "--platform"):
        assert word in script
    done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_bash_completes_files_where_a_file_is_wanted(lumicontainer: Run) -> None:
    script = lumicontainer("completion", "bash").stdout
    assert "_shtab_lumicontainer_inspect_pos_0_COMPGEN=_shtab_compgen_files" in script
    assert "_shtab_lumicontainer_build___recipes_COMPGEN=_shtab_compgen_dirs" in script


@pytest.mark.parametrize(
    "broken",
    ["broken.yaml", "profiles/broken.yaml", "layers/broken/layer.yaml", "envs/broken.yaml"],
)
def test_a_broken_document_is_reported_and_hides_no_other(
    lumicontainer: Run, write: Write, broken: str
) -> None:
    done = lumicontainer("list", "--recipes", write({**HELLO, broken: "sumary: x\n"}))
    assert done.returncode == 2
    for word in ("hello", "greet", "deepspeed", "rocm-6.4.4", "lumi-g"):
        assert f"  {word} " in done.stdout
    assert f"{broken}:1:1" in done.stderr
    assert done.stderr.count("has no key 'sumary'") == 1


def test_a_platform_without_an_end_hides_nothing_either(lumicontainer: Run, write: Write) -> None:
    folder = write({**HELLO, "envs/broken.yaml": "summary: [\n"})
    done = lumicontainer("list", "--json", "--recipes", folder)
    assert done.returncode == 2
    assert json.loads(done.stdout)["platforms"]["workstation"]
    assert done.stderr.count("error: ") == 1


def test_bash_completes_a_verb(lumicontainer: Run) -> None:
    script = lumicontainer("completion", "bash").stdout
    ask = "COMP_WORDS=(lumicontainer ren); COMP_CWORD=1; _shtab_lumicontainer; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], text=True, capture_output=True, check=False
    )
    assert done.stdout.split() == ["render"]


def test_doctor_says_what_this_host_can_do(lumicontainer: Run) -> None:
    done = lumicontainer("doctor", "--json")
    findings = {each["what"]: each for each in json.loads(done.stdout)}
    assert findings["engine"]["state"] == "ok"
    assert done.returncode == 0, done.stdout


def test_doctor_names_what_is_missing_and_its_hint(lumicontainer: Run, write: Write) -> None:
    folder = write({})
    done = lumicontainer("doctor", env={"LUMICONTAINER_TMPDIR": str(folder / "missing")})
    assert done.returncode == 1
    assert "✗ room for builds" in done.stdout
    assert "LUMICONTAINER_TMPDIR" in done.stdout


def test_a_full_disk_is_the_hosts_fault_and_no_bug_of_ours() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "lumicontainer", "completion", "bash"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 8
    assert "No space left on device" in done.stderr


def test_reading_into_a_pipe_that_closes_is_no_error(write: Write) -> None:
    command = f"{sys.executable} -m lumicontainer render pytorch-deepspeed | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("# Made by lumicontainer")


def test_a_full_disk_behind_stdout_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lumicontainer", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 8
    assert done.stderr == "error: No space left on device\n"


def test_a_reader_that_has_gone_is_no_fault() -> None:
    command = f"{sys.executable} -m lumicontainer list | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_verdict_stays_though_nobody_reads_it() -> None:
    words = "check rocm --platform lumi-g --profile rocm-7.0.2"
    bad = "--set mpich.provider=host --set mpich.version=4.3.2"
    command = f"{sys.executable} -m lumicontainer {words} {bad} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_a_file_server_that_was_lost_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's error for it is the one of a pipe whose reader has gone, too."""

    def lost(_: object) -> list[str]:
        raise OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN), "/appl/lumi")

    monkeypatch.setattr("lumicontainer.core.catalog.Catalog.recipe_names", lost)
    monkeypatch.setattr(sys, "stderr", told := io.StringIO())
    assert cli.main(["list"]) == 3
    assert "/appl/lumi" in told.getvalue()


@pytest.mark.parametrize(("words", "code"), [("list >&-", 0), ("show nothing 2>&-", 2)])
def test_what_is_closed_from_the_start_is_no_fault(words: str, code: int) -> None:
    command = f"{sys.executable} -m lumicontainer {words}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_show_tells_the_keys_that_a_build_has(lumicontainer: Run, write: Write) -> None:
    folder = write(HELLO)
    words = ("hello", "--recipes", folder, "--json")
    shown = json.loads(lumicontainer("show", *words).stdout)["steps"]
    assert shown == json.loads(lumicontainer("build", *words, "--dry-run").stdout)["steps"]


@pytest.mark.parametrize("words", [(), ("render",)])
def test_the_help_names_every_verb_and_that_of_a_verb_its_options(
    lumicontainer: Run, words: tuple[str, ...]
) -> None:
    every = lumicontainer("--help", *words).stdout
    assert all(f"\n    {verb}" in every for verb in VERBS)
    assert "--format" in lumicontainer("render", "--help").stdout
    assert lumicontainer().returncode == 2
    assert "--help" in lumicontainer("render", "--nothing").stderr


def test_show_tells_of_a_layer_all_that_it_says(lumicontainer: Run) -> None:
    done = lumicontainer("show", "deepspeed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("layer deepspeed: DeepSpeed, its ops compiled ahead of time\n")
    for text in (
        "\n  march ",
        "x86-64-v3  one of x86-64-v3, x86-64-v4, znver3  instruction set",
        "\nrequires pytorch\n",
        "\nfor rocm\n  compiled by compile-rocm.sh\n",
        "\nversion 0.18.9\n  source Python deepspeed, sha256 ee48",
        "not for rocm: it needs NVIDIA's cuFile\n",
        "deepspeed/training",
    ):
        assert text in done.stdout
    data = json.loads(lumicontainer("show", "deepspeed", "--json").stdout)
    parameters = {each["name"]: each for each in data["parameters"]}
    assert parameters["march"]["choices"] == ["x86-64-v3", "x86-64-v4", "znver3"]
    assert data["variants"]["cpu"]["parameters"] == {"DS_BUILD_SHM_COMM": "true"}


def test_show_tells_of_a_profile_its_values(lumicontainer: Run) -> None:
    done = lumicontainer("show", "rocm-7.0.2")
    assert done.stdout.startswith("profile rocm-7.0.2: ")
    assert "\n  pytorch          version   2.10.0+rocm7.0\n" in done.stdout
    data = json.loads(lumicontainer("show", "rocm-7.0.2", "--json").stdout)
    assert data["values"]["deepspeed"] == {"version": "0.18.9"}


def test_show_of_a_name_of_two_things_says_how_to_see_the_other(lumicontainer: Run) -> None:
    done = lumicontainer("show", "pytorch")
    assert "lumicontainer show pytorch --kind layer" in done.stderr
    told = lumicontainer("show", "pytorch", "--kind", "layer")
    assert told.stdout.startswith("layer pytorch: ")
    assert told.stderr == ""


def test_every_shipped_layer_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    catalog, problems = open_catalog(), Problems()
    for name in catalog.layer_names():
        layer = catalog.layer(name, problems)
        assert layer
        show_parts.print_layer(layer)
        assert capsys.readouterr().out.startswith(f"layer {name}: ")
        assert json.loads(as_json(show_parts.layer_data(layer)))["name"] == name
