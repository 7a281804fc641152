"""Each code block of the manual is sound, and the manual becomes a site."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from lumicontainer.commands.parser import VERBS, make_parser
from lumicontainer.host.mirrors import read_mirrors
from lumicontainer.importing.instructions import instructions
from lumicontainer.inside.verify import options

from ..conftest import ROOT
from ..documents import (
    BLOCKS,
    CODE,
    COMMANDS,
    DOCUMENTS,
    NOT_COMPARED,
    NOT_RUN,
    RUN_BY,
    SHOWN,
    WITHOUT_ENGINE,
    Block,
    calls,
)
from ..programs import run
from ..reader import make_reader

ALL = [block for blocks in BLOCKS.values() for block in blocks]
SHELL = [block for block in ALL if block.language in COMMANDS]
FILES = [block for block in ALL if block.language not in (*COMMANDS, SHOWN)]
TYPED = re.compile(r"(?m)^(?:\$|lumicontainer|singularity|apptainer|srun|make|pip|docker) ")
LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
LINKS = re.findall(r"\]\(([^)#:]+)[^):]*\)", (ROOT / "README.md").read_text())
INLINE = re.compile(r"`(lumicontainer [^`]+)`")


def named(block: Block) -> str:
    why = block.notes.get(NOT_RUN) or block.notes.get(RUN_BY, "")
    return f"{block} {why}".strip().encode("ascii", "replace").decode()


@cache
def names_of_tests() -> set[str]:
    texts = (path.read_text() for path in ROOT.glob("tests/**/test_*.py"))
    return {name for text in texts for name in re.findall(r"(?m)^def (test_\w+)", text)}


def understood(command: str) -> None:
    """Give the words of each call to the program's own parser; a folder of its name has none."""
    for words in filter(None, calls(command)):
        make_parser([words[0]] if words[0] in VERBS else []).parse_args(words)
    for words in calls(command, "lumi-verify"):
        options.read(words)


@pytest.mark.parametrize("block", ALL, ids=str)
def test_a_block_says_what_it_is(block: Block) -> None:
    assert block.language, f"{block}: name its language: console, sh, text or that of a file"
    assert block.notes.keys() <= {NOT_RUN, RUN_BY, NOT_COMPARED, CODE}
    assert block.notes.get(RUN_BY, "test_a_block_says_what_it_is") in names_of_tests()
    if block.language == SHOWN:
        assert not TYPED.search(block.text), f"{block}: what is typed is sh or console"


@pytest.mark.parametrize("block", SHELL, ids=named)
def test_what_is_typed_is_bash_and_every_option_in_it_exists(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.script, text=True, check=False)
    assert done.returncode == 0
    for command in block.commands:
        understood(command.text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_verb_or_an_option_that_a_sentence_names_exists(document: Path) -> None:
    for text in INLINE.findall(document.read_text()):
        verb, *words = text.partition(" -- ")[0].split()[1:]
        if not verb.startswith("-"):
            assert verb in VERBS, text
            options = {word.partition("=")[0] for word in words if word.startswith("-")}
            assert options <= set(option_names(make_parser([verb]))), text


def option_names(parser: Any) -> Iterator[str]:
    """Yield the options of a verb and of the verbs below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for below in action.choices.values():
                yield from option_names(below)


READERS = {
    "python": ast.parse,
    "bash": lambda text: subprocess.run(["bash", "-n"], input=text, text=True, check=True),
    "dockerfile": lambda text: [*instructions(text)],
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}


@pytest.mark.parametrize("block", FILES, ids=str)
def test_a_file_has_a_name_and_can_be_read(block: Block) -> None:
    assert block.name, f"{block}: end the paragraph above it with the file's name: `NAME`:"
    assert READERS[block.language](block.text)


def test_mirrors_that_are_shown_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (block.text for block in FILES if block.name.endswith("/mirrors.yaml"))
    for folder in re.findall(r"/srv/\S+/", text):
        (tmp_path / folder.removeprefix("/srv/")).mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "lumicontainer").mkdir()
    (tmp_path / "lumicontainer/mirrors.yaml").write_text(text.replace("/srv/", f"{tmp_path}/"))
    assert len(read_mirrors(())) == len(yaml.safe_load(text))


CI = {block.name: yaml.safe_load(block.text) for block in FILES if block.name.startswith(".git")}
GITHUB, GITLAB = CI[".github/workflows/image.yml"]["jobs"]["image"], CI[".gitlab-ci.yml"]["image"]
LINES = {
    "GitHub": [step["run"] for step in GITHUB["steps"] if "run" in step],
    "GitLab": [*GITLAB.get("before_script", ()), *GITLAB["script"]],
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_a_ci_file_installs_builds_and_verifies_by_commands_that_exist(lines: list[str]) -> None:
    for line in lines:
        understood(line)
    assert [words[0] for line in lines for words in calls(line)] == ["build", "verify"]
    script = next(line for line in lines if line.endswith(".sh"))
    assert os.access(ROOT / script, os.X_OK)
    (verify,) = (line for line in lines if " verify " in line)
    assert "--junit verify.xml --html verify.html" in verify


def test_images_are_published_by_the_program_that_ci_installs_elsewhere() -> None:
    assert CI[".gitlab/publish.yml"]["publish"]["before_script"] == GITLAB["before_script"]


def test_a_ci_file_keeps_the_reports_that_verify_writes() -> None:
    kept = GITHUB["steps"][-1]
    assert (kept["if"], kept["with"]["path"]) == ("always()", "verify.*")
    assert GITLAB["artifacts"]["reports"]["junit"] == "verify.xml"


@pytest.mark.parametrize("document", WITHOUT_ENGINE, ids=lambda path: path.name)
def test_what_a_reader_pastes_works_and_prints_what_is_shown(
    document: Path, tmp_path: Path
) -> None:
    reader = make_reader(tmp_path, {"LUMICONTAINER_CACHE": str(tmp_path / "cache")})
    faults = reader.faults(document)
    assert not faults, "\n\n".join(faults)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 255


def test_the_manual_becomes_a_site_that_loads_nothing_from_other_servers(tmp_path: Path) -> None:
    site = tmp_path / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
    done = run(words, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    pages = sorted(site.glob("*.html"))
    assert {page.stem for page in pages} >= {path.stem for path in ROOT.glob("docs/*.md")}
    for page in pages:
        assert not LOADED.findall(page.read_text()), page.name


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_readme_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).is_file()
