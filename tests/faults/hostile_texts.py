"""Texts that are made to be more than text, and a guard that none of them runs."""

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

MARK = "owned-by-text"
"""A file that a text would make if it ran."""
RUNS = f"touch {MARK}"
PARTS = (
    *("'", '"', "`", "\\", "$", "${", "}", "$(", ")", "((", "))", "#", "&&", ";", "|", "\n", "\r"),
    *("\t", " ", "~", "*", "?", "[", "]", "]]", "]==]", "{{", "}}", "{%", "<", ">", "</pre>", "%"),
    *("--", "-rf", "!", "=", "\x1b[2J", "\x7f", "\x9b", "\u2028", "\u202e", "\ufeff", "é", "😀"),
    *("%post", "%%", "bootstrap:", "EOF", "<<EOF", "\\u0000", "\\x00", "\\n", "\\", "//", "/*"),
)
WHOLE = (
    *("", " ", "-", "--", "-rf", "-n", "-e", ".", "..", "~", "$HOME", "${HOME}", "$${HOME}", "%s"),
    *(f"'; {RUNS}; '", f'"; {RUNS}; "', f"$({RUNS})", f"`{RUNS}`", f"\n{RUNS}\n", f"; {RUNS} #"),
    *(f"' && {RUNS} && '", f"\\'; {RUNS}", f"]]; os.execute('{RUNS}') --[[", f"]==]{RUNS}[==["),
    *(
        f"[exec {RUNS}]",
        f"}}; exec {RUNS}; {{",
        f"%post\n    {RUNS}",
        f"\n%post\n{RUNS}\n%labels\n",
    ),
    *(
        "bootstrap: docker",
        "\nBootstrap: docker\nFrom: evil",
        "{{ x }}",
        "{{ config }}",
        "{% raw %}",
    ),
    *(
        f'"\n[com.hooks]\ncommand = "{RUNS}',
        f"'''\n{RUNS}",
        f"#SBATCH --wrap={RUNS}",
        "\n#SBATCH x",
    ),
    *(
        f"<script>{RUNS}</script>",
        '" onload="x',
        "<img src=x onerror=x>",
        "&lt;b&gt;",
        "<!--",
        "]]>",
    ),
    *(
        "a\\\nb",
        "a\\",
        "\\",
        "\\\\",
        "\r\n",
        "\n\n",
        "$'\\x41'",
        "!!",
        "!$",
        "*",
        "?",
        "[a-z]",
        "{a,b}",
    ),
    *(
        "<(id)",
        "=(id)",
        "a=b",
        "\u2028x",
        "\u202ex",
        "x" * 3000,
        "é" * 500,
        "%{x}",
        "\\u007b",
        "\x1b]0;x\x07",
    ),
)


def texts() -> list[str]:
    """Return texts of one, two and three hostile parts, and whole attacks."""
    dice = random.Random(29)
    pairs = ["".join(pair) for pair in itertools.product(PARTS[:24], repeat=2)]
    more = [
        "".join(dice.choices((*PARTS, RUNS, "a", "0"), k=dice.randint(3, 9))) for _ in range(600)
    ]
    return list(dict.fromkeys((*WHOLE, *PARTS, *pairs, *more)))


TEXTS = texts()


def give(texts: Sequence[str]) -> pytest.MarkDecorator:
    """Give a test the texts that it passes to a reader, each of which is a case."""
    return pytest.mark.parametrize("texts", [texts], ids=["texts"])


def named(texts: Sequence[str]) -> dict[str, str]:
    """Return variables with these values."""
    return {f"V{number}": text for number, text in enumerate(texts)}


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    marked = [*tmp_path.rglob(f"*{MARK}*"), *Path.cwd().glob(f"*{MARK}*")]
    assert [path for path in marked if path.name == MARK] == []


def cases(test: Any) -> int:
    """Return how many texts a test passes to readers, with each of its parameters."""
    marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    texts = sum(len(values[0]) for names, values in marks if names == "texts")
    return texts * math.prod(len(values) for names, values in marks if names != "texts")
