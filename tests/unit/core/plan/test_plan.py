"""Programs and records of steps. What decides the keys of steps is in ``test_keys``."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.model import Bind, LayerFile, SdistSource
from lumicontainer.core.model.source import requirement
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.records import record_files, resolved_record
from lumicontainer.core.plan.seal import MAX_SECTION, mount_points
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Resolved

from ....conftest import HELLO

Resolve = Callable[..., Resolved]
LAYER = HELLO["layers/greet/layer.yaml"]


def keys(plan: Plan) -> dict[str, str]:
    return {step.name: step.key for step in plan.steps}


def plan_of(resolved: Resolve, files: dict[str, str] | None = None, *options: str) -> Plan:
    return make_plan(resolved(files, *options), ())


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + LAYER,
        LAYER.replace("type: integer, default: 1", "default: 1, type: integer"),
    ],
)
def test_how_a_document_is_written_leaves_the_key(resolved: Resolve, text: str) -> None:
    changed = plan_of(resolved, {"layers/greet/layer.yaml": text})
    assert keys(plan_of(resolved)) == keys(changed)


def test_the_mode_of_a_file_is_in_the_key_and_its_time_is_not(
    resolved: Resolve, write: Callable[..., object]
) -> None:
    first = keys(plan_of(resolved, {"layers/greet/tool": "x"}))["greet"]
    path = write({}) / "layers/greet/tool"  # type: ignore[operator]
    os.utime(path, (1, 1))
    assert keys(plan_of(resolved))["greet"] == first
    path.chmod(0o755)
    assert keys(plan_of(resolved))["greet"] != first


def test_the_script_stands_in_the_program_byte_for_byte(resolved: Resolve) -> None:
    program = plan_of(resolved).steps[0].program
    assert HELLO["layers/greet/install.sh"] in program


def test_what_is_baked_in_is_spread_over_sections(resolved: Resolve) -> None:
    inside = [LayerFile(f"m{n}.py", 0o644, f"part = {n}\n".encode() * 3000) for n in range(5)]
    seal = make_plan(resolved(), inside).steps[-1]
    assert len(seal.documents) > 1
    assert max(len(document.encode()) for document in seal.documents) <= MAX_SECTION
    for n in range(5):
        assert sum(f"\npart = {n}\n" in text for text in seal.documents) == 1
    written = {file.name.removeprefix("opt/lumicontainer/lib/lumi_inside/") for file in seal.files}
    assert written > {file.name for file in inside}, "a build writes them without a shell"
    assert "part = " not in seal.program
    works = ["compileall" in document for document in seal.documents]
    assert works == [False] * (len(works) - 1) + [True], "the work is done when all files are there"


def test_the_record_holds_values_and_origins_but_no_path(resolved: Resolve) -> None:
    result = resolved_record(resolved({}, "greet.times=3"))
    assert result["layers"]["greet"]["parameters"]["times"] == 3
    assert result["layers"]["greet"]["origins"]["times"] == "option"
    assert "/tmp" not in str(result)


def test_the_platform_s_tables_are_baked_in_with_versions(resolved: Resolve) -> None:
    layer = f"{LAYER}version: '1.2'\nprovides: {{libfabric: '2.1'}}\n"
    plain = resolved({"layers/greet/layer.yaml": layer})
    assert resolved_record(plain)["layers"]["greet"]["provides"] == {"libfabric": "2.1"}
    assert "platform.json" not in {file.name for file in record_files(plain)}
    full = plain._replace(platform=plain.platform._replace(interface_prefix="hsn"))
    file = next(file for file in record_files(full) if file.name == "platform.json")
    assert json.loads(file.content) == {
        "name": "workstation",
        "accelerator": "cpu",
        "interface_prefix": "hsn",
        "layers": {"tiny": "", "greet": "1.2", "libfabric": "2.1"},
    }


def test_a_source_is_pinned_by_its_hash_if_it_is_known() -> None:
    assert requirement(SdistSource("six", "ab"), "1.0") == "six==1.0 --hash=sha256:ab\n"
    assert requirement(SdistSource("six"), "1.0") == "six==1.0\n"


def test_what_layers_put_right_is_run_by_the_last_step_in_their_order(resolved: Resolve) -> None:
    files = {
        "layers/greet/finish.sh": "set -euo pipefail\nrm -f /opt/greeting\n",
        "layers/greet/kept.txt": "kept\n",
        "layers/wave/layer.yaml": "summary: waves\n",
        "layers/wave/finish.sh": "set -euo pipefail\nrm -f /opt/wave\n",
        "hello.yaml": "summary: a small image\nbase: tiny\nlayers:\n  - greet\n  - wave\n",
    }
    *steps, seal = plan_of(resolved, files).steps
    assert not [step.name for step in steps if "rm -f /opt/" in step.program]
    calls = [line for line in seal.program.splitlines() if "finish.sh)" in line]
    assert [line.partition(" && ")[0].rpartition("/")[2] for line in calls] == ["greet", "wave"]
    assert "finish/greet/kept.txt" in seal.program
    assert "".join(seal.documents).count("rm -f /opt/greeting\n") == 1


def test_the_last_step_makes_what_the_platform_and_the_layers_bind(resolved: Resolve) -> None:
    files = {"layers/greet/layer.yaml": f"{LAYER}binds: [{{path: /run/greet, reason: x}}]\n"}
    plain = resolved(files)
    binds = (Bind("/pfs", "data"), Bind("/etc/site.conf", "its settings", file=True))
    bound = plain._replace(platform=plain.platform._replace(binds=binds))
    assert [bind.path for bind in bound.binds()] == ["/pfs", "/etc/site.conf", "/run/greet"]
    seal = make_plan(bound, ()).steps[-1]
    for program in (seal.program, seal.documents[-1]):
        assert mount_points(bound.binds()) in program
    assert seal.key != make_plan(plain, ()).steps[-1].key
    assert "file" not in resolved_record(bound)["binds"][1], "engines see what is there"


@pytest.mark.slow
def test_mount_points_are_made_where_nothing_is_and_never_through_links(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept\n")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    binds = [
        *(Bind(f"{tmp_path}/{name}", "x") for name in ("a/b", "a", "kept", "link")),
        *(Bind(f"{tmp_path}/{name}", "x", file=True) for name in ("c/d.so", "kept", "link")),
    ]
    for _ in range(2):
        subprocess.run(["bash", "-euc", mount_points(binds)], check=True)
    paths = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")}
    assert paths == {"a", "a/b", "c", "c/d.so", "kept", "link"}
    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "c/d.so").read_bytes() == b""
    assert (tmp_path / "kept").read_text() == "kept\n"


def test_folders_of_later_layers_come_first_and_a_set_variable_replaces_all_below(
    resolved: Resolve,
) -> None:
    files = {
        "layers/one/layer.yaml": (
            "summary: x\nenvironment: {SET: /one}\nprepend: {SET: [/1], LIBRARIES: [/1, /2]}\n"
        ),
        "layers/two/layer.yaml": (
            "summary: x\nenvironment: {SET: /two}\nprepend: {LIBRARIES: [/3]}\n"
            "packages: {apt: [sl]}\n"
        ),
        "hello.yaml": "summary: x\nbase: tiny\nlayers: [one, two]\n",
    }
    plan = plan_of(resolved, files)
    assert (plan.environment["SET"], plan.environment["LIBRARIES"]) == ("/two", "/3:/1:/2")
    assert plan.lists == {"LIBRARIES"}
    program = next(step.program for step in plan.steps if step.name == "two")
    assert "export LIBRARIES=/3:/1:/2\n" in program
