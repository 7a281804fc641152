"""Files that are made to take for ever are read in linear time, or refused with the reason."""

from collections.abc import Callable

import pytest

from lumicontainer.errors import InputError

from ..cpu import within
from .conftest import Import, notes

SECONDS = 20.0
"""More than 20 times what any of them takes; quadratic reading takes many minutes."""
SIZE = 1_000_000
LINE = 65_000
COMMANDS = "2000 commands"
INSTRUCTIONS = "2000 instructions"
POST = "Bootstrap: docker\nFrom: debian\n%post\n"


def several(text: str, *, line: int = 60_000) -> str:
    """Return lines of a text that together have the size of a file that is read."""
    return "\n".join([text * (line // len(text))] * 15)


LINEAR = {
    "continued lines": ("Dockerfile", "FROM a\nRUN a" + "\\\n" * (SIZE // 8)),
    "comments": ("a.def", f"{POST}a" + "#\n" * (SIZE // 16)),
    "cases": ("a.def", POST + "case x in\n" * (SIZE // 10)),
    "sections": ("a.def", POST + "%p\n" * 1900),
    "blanks in a list": ("a.def", f"{POST}a && b{' ' * LINE}c\n"),
    "blanks in a command": ("a.def", f"{POST}a{' ' * LINE}c\n"),
    "redirections": ("a.def", f"{POST}a{' >/dev/null' * 5900} b\n"),
    "words before a command": ("a.def", f"{POST}{'sudo ' * 13_000}\n"),
    "one word": ("Dockerfile", f"FROM a\nENV A={'a' * LINE}\n"),
    "one list of folders": ("Dockerfile", f"FROM a\nENV PATH={'/a:' * 21_000}\n"),
    "expansions": ("Dockerfile", f"FROM a\nRUN {'${a:-' * 13_000}\n"),
    "parentheses": ("Dockerfile", f"FROM a\nRUN (({'(x)' * 21_000}\n"),
    "brackets": ("Dockerfile", f"FROM a\nRUN {'[' * LINE}\n"),
    "letters of a URL": ("Dockerfile", f"FROM a\n#{several('a')}://\n"),
    "fields of a URL": ("Dockerfile", f"FROM a\n#://{several('?key')}\n"),
    "a name of an archive": ("Dockerfile", f"FROM a\nRUN curl a://b | tar x {'1-' * 30_000}.tar\n"),
    "archives and folders": (
        "Dockerfile",
        f"FROM a\nRUN curl a://b {'| tar -C /a ' * 2500}{' b.tar' * 5000}\n",
    ),
    "addresses of archives": (
        "Dockerfile",
        f"FROM a\nRUN curl https://github.com/a/b/archive/{'a.tar' * 10_000}\n",
    ),
    "repositories": ("Dockerfile", "FROM a\n" + f"RUN git clone {'a' * 60_000}\n" * 15),
    "blanks in a setting": ("a.def", POST + f"echo A=a{' ' * 60_000}b\n" * 15),
    "an exported variable": (
        "a.def",
        f"Bootstrap: docker\nFrom: a\n%environment\nA={'b;' * 30_000}\n",
    ),
    "a file that is named often": ("requirements.txt", "-r b.txt\n" * 9000),
    "hashes": ("requirements.txt", f"a==1{(' --hash=sha256:' + '0' * 64) * 800} x"),
    "blanks in a requirement": ("requirements.txt", f"a{' ' * LINE}b"),
    "conditions": ("requirements.txt", f"a; {'(' * LINE}"),
    "digits": ("requirements.txt", f"a=={'9' * LINE}"),
    "two lines of a package": ("environment.yml", f'dependencies:\n- "{"a" * LINE}\\nb"\n'),
    "blanks in a package": ("environment.yml", f'dependencies:\n- "a{" " * LINE}b"\n'),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", LINEAR)
def test_a_file_is_read_in_linear_time(imported: Import, case: str) -> None:
    name, text = LINEAR[case]
    with within(SECONDS):
        imported(name, text, **{"b.txt": "numpy\n" * 1000})


REFUSED = {
    "a line": ("Dockerfile", f"FROM a\nENV A={'a' * 70_000}", "64 KiB"),
    "instructions": ("Dockerfile", "FROM a\nRUN a <<X\n" * 3000, INSTRUCTIONS),
    "stages": ("Dockerfile", "".join(f"FROM s{n} AS s{n + 1}\n" for n in range(3000)), "2000"),
    "commands": ("Dockerfile", f"FROM a\nRUN a{' && b' * 10_000}", COMMANDS),
    "commands of %post": ("a.def", POST + "b\n" * 3000, COMMANDS),
    "copies": ("Dockerfile", f"FROM a\nCOPY {'a ' * 20_000}/x/", "10000 parts"),
    "passwords": (
        "Dockerfile",
        "FROM a\n" + "".join(f"#http://u:secret{n}@h\n" for n in range(9000)),
        "100 passwords",
    ),
    "arguments": (
        "a.def",
        f"Bootstrap: docker\nFrom: x\n%arguments\nA={'a' * 60_000}\n%post\n{'{{A}}' * 12_000}",
        "1 MiB",
    ),
    "the base image": ("Dockerfile", f"ARG A={'a' * 60_000}\nFROM {'$A' * 20_000}", "64 KiB"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_too_large_to_follow_is_refused(imported: Import, case: str) -> None:
    name, text, limit = REFUSED[case]
    with within(SECONDS), pytest.raises(InputError, match=limit):
        imported(name, text)


DOUBLED = {
    "ENV": lambda: ("Dockerfile", "FROM a\nENV A=aaaaaaaa\n" + "ENV A=$A$A\n" * 30),
    "ARG": lambda: ("Dockerfile", "FROM a\nARG A=aaaaaaaa\n" + "ARG A=$A$A\n" * 30),
    "RUN": lambda: ("Dockerfile", f"FROM a\nENV A={'a' * 9000}\nRUN {'$A' * 30}\n"),
    "%environment": lambda: (
        "a.def",
        "Bootstrap: docker\nFrom: x\n%environment\nA=aaaaaaaa\n" + "export A=$A$A\n" * 30,
    ),
}


@pytest.mark.parametrize("case", DOUBLED)
def test_a_value_that_doubles_itself_is_not_carried(imported: Import, case: str) -> None:
    form: Callable[[], tuple[str, str]] = DOUBLED[case]
    with within(SECONDS):
        draft = imported(*form())
    assert any("more than 64 KiB" in why for why in notes(draft))


def test_a_file_is_read_once_however_many_files_name_it(imported: Import) -> None:
    files = {f"{n}.txt": f"-r {n + 1}.txt\n-r ./{n + 1}.txt\n" for n in range(40)}
    draft = imported("requirements.txt", "-r 0.txt\n", **files, **{"40.txt": "numpy\n"})
    assert len(draft.lines) == 82
    assert list(draft.python) == ["numpy"]


def test_the_stars_of_a_copy_do_not_search_folders_within_folders(imported: Import) -> None:
    with within(SECONDS):
        draft = imported("Dockerfile", f"FROM a\nCOPY {'**/' * 300} /x\n", **{"a.txt": "x"})
    assert notes(draft)
