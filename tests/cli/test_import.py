"""Imports of files in the style of popular projects, and files that ``import`` leaves alone."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.api.checking import CheckRequest, check
from lumicontainer.api.rendering import RenderRequest, render
from lumicontainer.errors import InputError
from lumicontainer.host.recipes import resolve_recipe

from ..conftest import ROOT
from ..programs import run as started
from ..schemas import schema_errors
from .conftest import Run, refused, succeeded

CASES = ROOT / "tests/imports"
FILES = {
    each.parent.name: each.read_text().partition(":")[0] for each in CASES.glob("*/report.txt")
}
"""By case: the file that is imported, which its report names first."""
CPU_ALONE = {"tensorflow"}
"""The cases with a layer that is for a CPU alone."""
PROFILES = {"extras": "rocm-7.0.2"}
"""The cases that need another profile than LUMI-G's first: JAX needs ROCm 7."""
Import = Callable[..., subprocess.CompletedProcess[str]]


def imported(run: Run, case: str, folder: Path, platform: str = "workstation"):
    """Import a case with --json into a folder."""
    file = CASES / case / FILES[case]
    words = ("--name", f"my-{case}", "--output", folder, "--platform", platform, "--json")
    return run("import", file, *words)


@pytest.fixture
def import_text(lumicontainer: Run, tmp_path: Path) -> Import:
    """Import a file of a name with a text as ``mine``."""

    def run(name: str, text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / name).write_text(text, newline="")
        words = ("--name", "mine", "--platform", "workstation")
        return lumicontainer("import", name, *words, cwd=tmp_path)

    return run


def as_text(report: str) -> str:
    """Return the lines of a report as people compare them."""
    rows = json.loads(report)["lines"]
    return "".join(
        f"{row['file']}:{row['line']}: {row['outcome']}: {' '.join(row['text'].split())}\n"
        + (f"    {row['note']}\n" if row["note"] else "")
        + (f"    missing: {row['missing']}\n" if row["missing"] else "")
        for row in rows
    )


def files(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, but for the schemas."""
    paths = (each for each in folder.rglob("*") if each.is_file() and each.parent.name != "schemas")
    return {str(each.relative_to(folder)): each.read_bytes() for each in paths}


def test_each_case_has_a_report() -> None:
    assert FILES.keys() == {each.name for each in CASES.iterdir()}


@pytest.mark.parametrize("case", FILES)
def test_each_line_is_reported_and_what_is_written_can_be_built(
    lumicontainer: Run, tmp_path: Path, case: str, request: pytest.FixtureRequest
) -> None:
    done = imported(lumicontainer, case, tmp_path / "out")
    text, golden = as_text(done.stdout), CASES / case / "report.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert done.returncode == (": not carried: " in text), done.stderr
    recipe = tmp_path / f"out/my-{case}.yaml"
    for path in (recipe, tmp_path / f"out/layers/my-{case}/layer.yaml"):
        assert schema_errors(path) == []
    render(RenderRequest(str(recipe), platform="workstation"))
    request = CheckRequest(str(recipe), platform="lumi-g", profile=PROFILES.get(case, ""))
    if case in CPU_ALONE:
        with pytest.raises(InputError) as caught:
            check(request)
        assert "use --platform workstation" in str(caught.value.problems)
    else:
        assert not check(request).failed
    for script in tmp_path.glob("out/layers/*/install.sh"):
        subprocess.run([Path(sys.executable).parent / "shellcheck", script], check=True)


def test_layers_of_a_platform_take_the_place_of_cuda(lumicontainer: Run, tmp_path: Path) -> None:
    rows = json.loads(imported(lumicontainer, "apex", tmp_path / "out", "lumi-g").stdout)["lines"]
    layers = {row["layer"]: row["note"] for row in rows if row["layer"]}
    assert layers.keys() == {"rocm", "pytorch", "apex", "flash-attention"}
    assert layers["rocm"].startswith("layer rocm 6.4.4; the base is ubuntu ")


def test_it_prints_a_table_and_the_next_command(lumicontainer: Run, tmp_path: Path) -> None:
    done = succeeded(lumicontainer("import", CASES / "small/Dockerfile", cwd=tmp_path))
    assert "  4   carried     apt jq\n" in done.stdout
    assert done.stdout.endswith("Dockerfile: 9 carried, 2 replaced, 2 not needed, 0 not carried\n")
    assert done.stderr.endswith("\n  lumicontainer build small/small.yaml\n")
    assert lumicontainer("show", "small/small.yaml", cwd=tmp_path).returncode == 0


UNFINISHED = (
    "FROM debian\nRUN pip install vllm polars && curl -o /opt/a.sh https://a.example/a.sh\n"
)


def test_the_last_lines_say_what_the_image_will_not_have(
    lumicontainer: Run, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(UNFINISHED)
    done = lumicontainer("import", "Dockerfile", "--name", "mine", cwd=tmp_path)
    assert done.returncode == 1
    *_, heading, first, second = done.stdout.splitlines()
    assert heading == "the image will not have:"
    assert first.split()[:3] == ["vllm", "line", "2"]
    assert second.split()[:3] == ["https://a.example/a.sh", "line", "2"]
    assert "delete their lines under 'missing' in mine/mine.yaml" in done.stderr


def test_a_draft_is_refused_until_what_is_missing_is_deleted(
    lumicontainer: Run, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(UNFINISHED)
    lumicontainer("import", "Dockerfile", "--name", "mine", cwd=tmp_path)
    recipe = tmp_path / "mine/mine.yaml"
    build = ("build", "mine/mine.yaml", "--dry-run", "--platform", "workstation")
    done = lumicontainer(*build, cwd=tmp_path)
    refused(done, "the image would lack vllm (Dockerfile:2)\n  where: mine/mine.yaml:10:5\n")
    assert "or delete the line to build without it" in done.stderr
    text = recipe.read_text()
    recipe.write_text(re.sub(r"(?m)^  - .*vllm.*\n", "", text))
    done = lumicontainer(*build, cwd=tmp_path)
    assert "vllm" not in done.stderr
    refused(done, "the image would lack https://a.example/a.sh (Dockerfile:2)")
    recipe.write_text(re.sub(r"(?m)^  - .*\n", "", text))
    succeeded(lumicontainer(*build, cwd=tmp_path))


def test_a_named_context_may_lie_elsewhere(lumicontainer: Run, tmp_path: Path) -> None:
    for name, text in (("own/Dockerfile", "FROM debian\nCOPY a /opt/\n"), ("other/a", "x\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    words = ("own/Dockerfile", "--context", "other", "--name", "mine")
    done = succeeded(lumicontainer("import", *words, cwd=tmp_path))
    assert "own/Dockerfile: 1 carried, 1 replaced" in done.stdout
    assert files(tmp_path / "mine")["layers/mine/files/a"] == b"x\n"


def test_a_second_import_overwrites_nothing(lumicontainer: Run, tmp_path: Path) -> None:
    first = lumicontainer("import", CASES / "small/Dockerfile", cwd=tmp_path)
    before = files(tmp_path)
    second = lumicontainer("import", CASES / "small/Dockerfile", cwd=tmp_path)
    assert (first.returncode, second.returncode) == (0, 2)
    assert "these files exist already" in second.stderr
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("Makefile", "all:\n", "unknown kind of file 'Makefile'\n   hint: rename it to Docker"),
        ("Dockerfile", "RUN true\n", "expected a Dockerfile with FROM"),
        ("a.def", "%post\n    true\n", "expected a definition of Apptainer"),
        ("a.yml", "services: {web: {image: x}}\n", "expected an environment of conda"),
        ("b.yml", "a: [\n", "this is not YAML"),
        ("python.txt", "rich\n", "layer 'python' exists already"),
    ],
)
def test_another_file_is_refused_and_nothing_written(
    lumicontainer: Run, tmp_path: Path, name: str, text: str, why: str
) -> None:
    (tmp_path / name).write_text(text)
    before = files(tmp_path)
    refused(lumicontainer("import", name, cwd=tmp_path), why)
    assert files(tmp_path) == before


def test_nothing_of_the_file_runs_on_this_host(import_text: Import, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "setup.py").write_text(f"open({str(mark)!r}, 'w')\n")
    done = import_text(
        "Dockerfile",
        f"FROM debian\nENV A=$(touch {mark})\nRUN touch {mark}; $(touch {mark})\n"
        f"RUN pip install `touch {mark}`\nRUN <<E\ntouch {mark}\nE\n",
    )
    assert done.returncode == 1
    assert not mark.exists()


def test_an_import_that_cannot_finish_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nCOPY large.dat /opt/\n")
    (tmp_path / "large.dat").write_bytes(bytes(9000))
    before = files(tmp_path)
    command = f"ulimit -f 4 && exec {sys.executable} -m lumicontainer import Dockerfile --name mine"
    done = started(["bash", "-c", command], cwd=tmp_path)
    assert done.returncode == 8, done.stderr
    assert files(tmp_path) == before
    assert not (tmp_path / "mine").exists()


def test_a_source_can_be_filled_in(lumicontainer: Run, import_text: Import, tmp_path: Path) -> None:
    done = import_text(
        "Dockerfile",
        "FROM debian\nRUN git clone --branch v1 https://example.org/a/tool.git /opt/tool\n"
        "RUN curl -fsSLo /tmp/data.txt https://example.org/data && sort /tmp/data.txt\n"
        "RUN pip install git+https://token@example.org/b/other@v2 && wget http://$HOST/x\n",
    )
    assert "sort /tmp/data.txt" in done.stdout
    layer = tmp_path / "mine/layers/mine/layer.yaml"
    text = layer.read_text()
    assert "token" not in text
    checked = succeeded(lumicontainer("check", "mine/mine.yaml", cwd=tmp_path))
    assert "warning: build refuses this draft: the image would lack " in checked.stdout
    assert ": 0 errors, 0 warnings" not in checked.stdout
    text = text.replace('commit: "FILL-IN"', f'commit: "{"a" * 40}"')
    text = text.replace('sha256: "FILL-IN"', f'sha256: "{"b" * 64}"')
    layer.write_text(text.replace("# sources:", "sources:").replace("#   - ", "  - "))
    with layer.with_name("install.sh").open("a") as script:
        script.write('ls "$sources/tool" "$sources/other" "$sources/data.txt"\n')
    shown = succeeded(lumicontainer("show", "mine/mine.yaml", cwd=tmp_path))
    for name in ("tool from https://example.org/a/tool.git", "other from ", "data.txt from "):
        assert name in shown.stdout


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_passwords_of_urls_are_printed_nowhere(
    lumicontainer: Run, tmp_path: Path, more: tuple[str, ...]
) -> None:
    first, second, third = (f"https://u:a-{word}-secret@h.example/f.tgz" for word in "xyz")
    (tmp_path / "Dockerfile").write_text(
        f"FROM debian\nRUN curl -O {first} && pip install -r requirements.txt\n"
        "COPY requirements.txt environment.yml /\nWORKDIR /\n"
        "RUN pip install -r requirements.txt && conda env create\n"
    )
    (tmp_path / "requirements.txt").write_text(f"a @ {second}\n")
    (tmp_path / "environment.yml").write_text(f"dependencies: [pip: ['{third}']]\n")
    done = lumicontainer("import", "Dockerfile", "--name", "mine", *more, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.count("***") == 3
    written = b"".join(files(tmp_path / "mine").values()).decode()
    assert "-secret" not in done.stdout + done.stderr + written


def test_lines_of_windows_and_a_byte_order_mark_are_read(import_text: Import) -> None:
    text = "\ufeffFROM debian\r\nRUN apt-get install jq \\\r\n  bc\r\n"
    done = succeeded(import_text("Dockerfile", text))
    assert done.stdout.endswith(": 2 carried, 1 replaced, 0 not needed, 0 not carried\n")


@pytest.mark.parametrize(
    ("packages", "layers"),
    [
        ("jax", "jax()"),
        ("mpi4py", "rccl-plugin() mpi4py()"),
        ("tensorflow", "tensorflow()"),
        ("horovod", "pytorch() horovod(pytorch)"),
        ("horovod tensorflow", "tensorflow() horovod(tensorflow)"),
        ("tensorflow torch horovod", "pytorch() tensorflow() horovod(pytorch tensorflow)"),
    ],
)
def test_a_recipe_has_the_layers_that_its_packages_need_and_none_of_its_own(
    packages: str, layers: str, import_text: Import, tmp_path: Path
) -> None:
    succeeded(import_text("requirements.txt", packages.replace(" ", "\n")))
    assert [*files(tmp_path / "mine")] == ["mine.yaml"]
    resolved = resolve_recipe("mine", platform="workstation", recipes=tmp_path / "mine")
    shown = " ".join(
        f"{each.name}({each.values().get('frameworks', '')})" for each in resolved.layers
    )
    assert shown.endswith(f" {layers}")
    assert ("pytorch(" in shown) == ("pytorch" in layers)
