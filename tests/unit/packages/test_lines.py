"""Lines of requirements files mean what pip means by them."""

import pytest

from lumicontainer.packages.lines import Option, PipLine, read_line

HASH = "0" * 64


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("-r more.txt", [Option("-r", "more.txt")]),
        ("-rmore.txt", [Option("-r", "more.txt")]),
        ("--requirement=more.txt", [Option("--requirement", "more.txt")]),
        ("-r 'my file.txt'", [Option("-r", "my file.txt")]),
        ("--pre", [Option("--pre")]),
        ("--pre -i https://a.example", [Option("--pre"), Option("-i", "https://a.example")]),
        (
            "--index-url https://a.example --extra-index-url=https://b.example",
            [
                Option("--index-url", "https://a.example"),
                Option("--extra-index-url", "https://b.example"),
            ],
        ),
        ("-e 'git+https://a.example/b#egg=c'", [Option("-e", "git+https://a.example/b#egg=c")]),
        ("-f a b", [Option("-f", "a b")]),
        ("-f 'a", [Option("-f", "'a")]),
        ("-f", [Option("-f")]),
    ],
)
def test_a_line_of_options_has_each_with_its_value(text: str, options: list[Option]) -> None:
    assert read_line(text) == PipLine("", tuple(options))


@pytest.mark.parametrize(
    ("text", "requirement", "names"),
    [
        ("numpy>=1.2 ; python_version < '3.12'", "numpy>=1.2 ; python_version < '3.12'", []),
        (f"a==1 --hash=sha256:{HASH}  --hash sha256:{HASH}", "a==1", ["--hash", "--hash"]),
        ("a --config-settings=x=y", "a", ["--config-settings"]),
        ("a @ https://a.example/a--b.whl", "a @ https://a.example/a--b.whl", []),
        ("./a--b", "./a--b", []),
    ],
)
def test_settings_follow_a_requirement(text: str, requirement: str, names: list[str]) -> None:
    read = read_line(text)
    assert (read.requirement, [each.name for each in read.options]) == (requirement, names)


def test_a_hash_is_a_sha256() -> None:
    read = read_line(f"a==1 --hash=sha256:{HASH} --hash=md5:00")
    assert (read.hashes(), read.unread_hashes()) == ([HASH], ["md5:00"])
