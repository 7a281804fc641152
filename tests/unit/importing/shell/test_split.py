"""Shell text is split into commands that keep what belongs together."""

import pytest

from lumicontainer.importing.shell.split import command_words, expand_variables, split

LOOP = "for i in 1 2; do\n  a && b; if x; then y; fi\ndone <list"
HEREDOC = "cat <<'END' >/x\nfor x in; &&\nEND"


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a && b; c\nd", ["a", "b", "c", "d"]),
        ("a \\\n  b && \\\n\\\n  c", ["a \\\n  b", "c"]),
        ("echo 'a; b' \"c && d\" e\\;f `g;h`", ["echo 'a; b' \"c && d\" e\\;f `g;h`"]),
        (f"a && {LOOP}; z", ["a", LOOP, "z"]),
        (f"{HEREDOC}\nz", [HEREDOC, "z"]),
        ("case $x in\n  a) one;;\n  *) two;;\nesac\nz", None),
        ("f() { a; b; }; f", ["f() { a; b; }", "f"]),
        ("(a; b) && c", ["(a; b)", "c"]),
        ("a && b || c; d", ["a && b || c", "d"]),
        ("[ -e x ] && a; b", ["[ -e x ] && a", "b"]),
        ("# note\na # other; b\n# last", ["a # other; b"]),
        ("a <<<b; c", ["a <<<b", "c"]),
        ("a $((1<<3)); (( b <<c )); d\ne", ["a $((1<<3))", "(( b <<c ))", "d", "e"]),
        ("((a; b) && c); d", ["((a; b) && c)", "d"]),
        ("a && b <<E && c; d\nx && y\n\tE\nE\nz", ["a", "b <<E && c; d\nx && y\n\tE\nE", "z"]),
        ("a <<-'E-F' <<\\G; b\n\tE-F\n E\nG\nz", ["a <<-'E-F' <<\\G; b\n\tE-F\n E\nG", "z"]),
    ],
)
def test_a_command_ends_where_bash_ends_it(text: str, commands: list[str] | None) -> None:
    expected = commands or [text.removesuffix("\nz"), "z"]
    assert [each.text for each in split(text)] == expected


def test_a_command_knows_its_line_and_whether_it_is_more_than_words() -> None:
    commands = split("a\n\n# note\nb >c; d 'e|f' >/dev/null 2>&1; g ${H}")
    known = [(each.offset, each.compound) for each in commands]
    assert known == [(0, False), (3, True), (3, False), (3, False)]


def test_known_variables_are_put_in_and_others_are_not_guessed() -> None:
    values = {"A": "1 2", "B": "b"}
    assert expand_variables("$A ${B} ${C:-c} $D", values) == "1 2 b c $D"
    assert command_words("x \"$A\" 'y $Z'", values) == ["x", "1 2", "y $Z"]
    assert command_words("x $D", values) is None


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${A:-x}${C:-x}${C-${A}}", "axa"),
        ("${A:+x}${A+y$A}", "xya"),
        ("${A:+${C:-z}}", "z"),
        ("${C:+x}", "${C:+x}"),
        ("${A%b} ${A:?x} ${#A}", "${A%b} ${A:?x} ${#A}"),
    ],
)
def test_expansions_of_known_meaning_are_put_in(text: str, expanded: str) -> None:
    assert expand_variables(text, {"A": "a"}) == expanded
