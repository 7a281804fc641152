"""``lumicontainer lint`` prints what is wrong with batch scripts, and corrects them in place."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ..conftest import ROOT
from ..documents import BLOCKS
from ..lint_cases import CLEAN, FAULTS, expected
from .conftest import Run, refused, succeeded

SHELLCHECK = Path(sys.executable).with_name("shellcheck")
WITH_SHELLCHECK = {**os.environ, "PATH": f"{SHELLCHECK.parent}:{os.environ['PATH']}"}
LUMI = ("lint", "--platform", "lumi-g")
APPTAINER = """\
#!/bin/bash
#SBATCH --account=project_465000001
export SINGULARITY_BIND=/var/spool/slurmd,/pfs,/scratch
srun apptainer exec a.sif lumi-entry train.py
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text(APPTAINER)
    return path


def test_a_finding_has_its_place_the_reason_with_a_source_and_a_hint(
    lumicontainer: Run, script: Path
) -> None:
    done = lumicontainer(*LUMI, script.name, cwd=script.parent)
    assert done.returncode == 1
    assert done.stdout == (
        "job.sh:4:6: error other-engine: 'apptainer' is not there; the engine of this platform is"
        " singularity\n    why: the command is not found (LUMI training materials,"
        " docs/2day-20260422/205-Containers.md)\n   hint: write singularity\n"
    )
    assert "1 script for lumi-g: 1 finding; --fix corrects 1" in done.stderr


def test_a_script_without_a_fault_ends_well_and_prints_nothing(lumicontainer: Run) -> None:
    done = succeeded(lumicontainer(*LUMI, "-q", *CLEAN))
    assert (done.stdout, done.stderr) == ("", "")


OTHER = """\
format: 1
summary: another cluster
accelerator: cpu
slurm:
  partitions:
    - {name: ours, nodes: 2, cores: 8, memory: 48G, max_time: 1h, max_nodes: 2, max_jobs: 9,
       running_jobs: 9, billing: cpu, source: an example}
  billing:
    - {name: cpu, unit: core-hours, rate: 1, cores: 1, memory: 6G, source: an example}
"""


@pytest.mark.parametrize(
    ("partition", "platform", "assumed"),
    [("ours", "other", False), ("x,small-g", "lumi-g", False), ("x", "lumi-g", True)],
)
def test_the_platform_is_that_of_the_partition_else_one_is_assumed(
    lumicontainer: Run, script: Path, partition: str, platform: str, assumed: bool
) -> None:
    (script.parent / "envs").mkdir()
    (script.parent / "envs/other.yaml").write_text(OTHER)
    script.write_text(APPTAINER.replace("#SBATCH", f"#SBATCH -p {partition}\n#SBATCH"))
    done = lumicontainer("lint", "--recipes", script.parent, script)
    assert f"1 script for {platform}: " in done.stderr
    assert ("is assumed: no partition of a platform is named" in done.stderr) == assumed


def test_all_scripts_are_judged_also_as_json(lumicontainer: Run) -> None:
    done = lumicontainer(*LUMI, "--json", *FAULTS)
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert (data["platform"], data["scripts"]) == ("lumi-g", len(FAULTS))
    for path in FAULTS:
        rows = [each for each in data["findings"] if each["file"] == str(path)]
        own = [each for each in rows if each["by"] == "lumicontainer"]
        assert [(each["line"], each["column"], each["id"]) for each in own] == expected(path)


def test_a_fix_keeps_the_mode_of_the_file_and_a_link_to_it(
    lumicontainer: Run, script: Path
) -> None:
    script.chmod(0o751)
    link = script.with_name("link.sh")
    link.symlink_to(script.name)
    done = succeeded(lumicontainer(*LUMI, "--fix", link))
    assert done.stdout == ""
    assert script.read_text() == APPTAINER.replace("apptainer", "singularity")
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert link.is_symlink()
    names = sorted(each.name for each in script.parent.iterdir())
    assert names == ["empty", "job.sh", "link.sh"]


def test_a_diff_changes_nothing_and_patch_applies_it(lumicontainer: Run, script: Path) -> None:
    done = lumicontainer(*LUMI, "--diff", script.name, cwd=script.parent)
    assert done.returncode == 1
    assert script.read_text() == APPTAINER
    apply = ["git", "apply", "-p0", "--unsafe-paths", "-"]
    subprocess.run(apply, input=done.stdout, text=True, cwd=script.parent, check=True)
    assert script.read_text() == APPTAINER.replace("apptainer", "singularity")
    again = succeeded(lumicontainer(*LUMI, "--diff", script.name, cwd=script.parent))
    assert again.stdout == ""


def test_bash_reads_what_is_fixed_and_shellcheck_finds_no_more(
    tmp_path: Path, lumicontainer: Run
) -> None:
    copies = [Path(shutil.copy(each, tmp_path)) for each in FAULTS if "quote" not in each.stem]
    before = shellcheck_counts(copies)
    lumicontainer(*LUMI, "--fix", *copies)
    for each in copies:
        assert subprocess.run(["bash", "-n", each], check=False).returncode == 0, each
    after = shellcheck_counts(copies)
    assert {file: count for file, count in after.items() if count > before.get(file, 0)} == {}


def shellcheck_counts(files: list[Path]) -> dict[str, int]:
    words = [SHELLCHECK, "--format=json", "--severity=warning", "--shell=bash", *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    counts: dict[str, int] = {}
    for row in json.loads(done.stdout):
        counts[row["file"]] = counts.get(row["file"], 0) + 1
    return counts


def test_shellcheck_speaks_by_its_own_names_beside_the_rules(
    lumicontainer: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.sh").write_text(APPTAINER + "cd /scratch\n")
    done = lumicontainer(*LUMI, "--json", tmp_path / "a.sh", env=WITH_SHELLCHECK)
    data = json.loads(done.stdout)
    assert data["shellcheck"]
    assert [each["id"] for each in data["findings"]] == ["other-engine", "SC2164"]
    (tmp_path / "a.sh").write_text("#!/bin/bash\ncd /scratch  # lumicontainer: ignore=SC2164\n")
    assert succeeded(lumicontainer(*LUMI, tmp_path / "a.sh", env=WITH_SHELLCHECK)).stdout == ""


def test_a_host_without_shellcheck_is_told_so_in_a_line(lumicontainer: Run, script: Path) -> None:
    env = {**os.environ, "PATH": "/usr/sbin"}
    done = lumicontainer(*LUMI, script, env=env)
    assert "ShellCheck is not installed: its findings are missing\n" in done.stderr


def test_a_script_that_is_refused_never_reaches_shellcheck(
    lumicontainer: Run, tmp_path: Path
) -> None:
    (tmp_path / "deep.sh").write_text("#!/bin/bash\nx=" + "$(echo " * 500 + ")" * 500 + "\n")
    program = tmp_path / "shellcheck"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/asked'\n")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    refused(lumicontainer(*LUMI, tmp_path / "deep.sh", env=env), "nested too deep")
    assert not (tmp_path / "asked").exists()


LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {"required": ["uri"]},
                "region": {
                    "required": ["startLine", "startColumn", "endLine", "endColumn"],
                    "additionalProperties": {"type": "integer", "minimum": 1},
                },
            },
        }
    },
}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "level", "locations"],
    "properties": {
        "message": MESSAGE,
        "level": LEVEL,
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
    },
}
RULE = {
    "type": "object",
    "required": ["id"],
    "properties": dict.fromkeys(("shortDescription", "fullDescription", "help"), MESSAGE),
}
DRIVER = {
    "type": "object",
    "required": ["name"],
    "properties": {"rules": {"type": "array", "uniqueItems": True, "items": RULE}},
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {"required": ["driver"], "properties": {"driver": DRIVER}},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
"""The requirements of SARIF 2.1.0 (OASIS, sections 3.13 to 3.51) for the parts that are written."""


def test_sarif_has_what_its_standard_asks_for(lumicontainer: Run, script: Path) -> None:
    scripts = (*FAULTS[:20], script)
    done = lumicontainer(*LUMI, "--sarif", *scripts, env=WITH_SHELLCHECK)
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, SARIF)
    own = data["runs"][0]
    known = {each["id"] for each in own["tool"]["driver"]["rules"]}
    assert own["results"]
    assert {each["ruleId"] for each in own["results"]} <= known


def test_what_is_no_script_is_refused_and_nothing_is_written(
    lumicontainer: Run, tmp_path: Path, script: Path
) -> None:
    files = {"nul": b"#!/bin/bash\n\0", "latin": b"\xff\xfe", "large": b"#" * (300 << 10)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    names = [tmp_path / name for name in files]
    done = lumicontainer(*LUMI, "--fix", script, *names)
    refused(done, *(f"cannot lint the script\n  where: {each}\n" for each in names))
    assert script.read_text() == APPTAINER


@pytest.mark.parametrize("make", ["absent", "folder", "pipe"])
def test_what_cannot_be_read_is_refused(lumicontainer: Run, tmp_path: Path, make: str) -> None:
    path = tmp_path / make
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    refused(lumicontainer(*LUMI, path), "cannot read the script", str(path))


def test_a_file_without_a_record_is_no_image(
    lumicontainer: Run, script: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.sif").write_text("x")
    refused(lumicontainer(*LUMI, "--image", tmp_path / "a.sif", script), "a.sif")


@pytest.mark.parametrize("words", [("--fix", "--diff"), ("--json", "--sarif")])
def test_options_that_exclude_each_other_are_refused(
    lumicontainer: Run, script: Path, words: tuple[str, str]
) -> None:
    refused(lumicontainer(*LUMI, *words, script), "not allowed with")


OLD = "old.sh"
BATCH = [
    block
    for blocks in BLOCKS.values()
    for block in blocks
    if block.language == "bash" and "#SBATCH" in block.text and block.name != OLD
]


def test_the_batch_scripts_of_the_manual_have_no_finding(
    lumicontainer: Run, tmp_path: Path
) -> None:
    assert len(BATCH) >= 8
    for number, block in enumerate(BATCH):
        (tmp_path / f"{number}.sh").write_text(block.text)
    scripts = sorted(tmp_path.glob("*.sh"))
    assert succeeded(lumicontainer(*LUMI, *scripts, env=WITH_SHELLCHECK)).stdout == ""


def test_the_page_about_jobs_shows_what_lint_prints(lumicontainer: Run, tmp_path: Path) -> None:
    page = ROOT / "docs/jobs.md"
    (old,) = (block for block in BLOCKS[page] if block.name == OLD)
    (tmp_path / OLD).write_text(old.text)
    done = lumicontainer(*LUMI, OLD, cwd=tmp_path)
    assert done.returncode == 1
    assert f"$ lumicontainer lint --platform lumi-g {OLD}\n{done.stdout}```" in page.read_text()


def test_the_table_of_rules_is_made_from_them() -> None:
    words = [sys.executable, "-m", "lumicontainer.jobs.lint.reference"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (ROOT / "docs/lint-rules.md").read_text() == done.stdout, "run: make schemas"
    assert not re.search(r"\{\w+\}", done.stdout)
