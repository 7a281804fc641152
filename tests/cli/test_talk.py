"""How much is printed: the result alone, as usual, or every command; and where help is found."""

import pytest

from lumicontainer.commands.parser import VERBS

from ..conftest import ROOT
from .conftest import Run, refused


@pytest.mark.parametrize("words", [("-V",), ("--version",), ("-q", "-V")], ids=" ".join)
def test_the_version_is_printed(lumicontainer: Run, words: tuple[str, ...]) -> None:
    done = lumicontainer(*words)
    assert done.returncode == 0
    assert done.stdout.startswith("lumicontainer ")


@pytest.mark.parametrize("words", [(), ("build",), ("cache", "explain")], ids=" ".join)
def test_help_prints_what_the_option_prints(lumicontainer: Run, words: tuple[str, ...]) -> None:
    printed = lumicontainer("help", *words)
    assert printed.returncode == 0
    assert printed.stdout == lumicontainer(*words, "--help").stdout


def test_the_help_names_every_verb_also_before_one_and_without_any_word(lumicontainer: Run) -> None:
    for words in (("--help",), ("--help", "render"), ()):
        done = lumicontainer(*words)
        assert done.returncode == 0
        assert [verb for verb in VERBS if f"\n  {verb} " not in done.stdout] == []
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_help_has_the_verbs_in_the_order_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text().partition("## Commands")[2]
    assert sorted(VERBS, key=lambda verb: text.index(f"lumicontainer {verb}")) == list(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_in_its_help_how_much_it_prints(lumicontainer: Run, verb: str) -> None:
    printed = lumicontainer(verb, "--help").stdout
    assert "-q, --quiet" in printed
    assert "-v, --verbose" in printed


LUMI = ("render", "rocm", "--platform", "lumi-g")


@pytest.mark.parametrize("words", [("-q", *LUMI), (*LUMI, "--quiet")], ids=["before", "behind"])
def test_quiet_keeps_the_result_without_talk(lumicontainer: Run, words: tuple[str, ...]) -> None:
    usual, quiet = lumicontainer(*LUMI), lumicontainer(*words)
    assert "note: " in usual.stderr
    assert (quiet.returncode, quiet.stderr, quiet.stdout) == (0, "", usual.stdout)


def test_quiet_keeps_errors(lumicontainer: Run) -> None:
    refused(lumicontainer("show", "-q", "nothing"))


def test_verbose_prints_the_commands_that_are_started(lumicontainer: Run) -> None:
    assert "+ " not in lumicontainer("doctor").stderr
    lines = lumicontainer("doctor", "-v").stderr.splitlines()
    assert any(line.startswith("+ unshare ") for line in lines)
    assert all(line.startswith("+ ") for line in lines)
