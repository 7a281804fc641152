"""A secret is known in every form in which a program writes it, and a common word is not one."""

import base64
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from lumicontainer.system.terminal import masking

CANARY = "c@nary/5e3f+9b1c:77d2"


@pytest.fixture(autouse=True)
def nothing() -> Iterator[None]:
    yield
    masking._hidden.clear()


@pytest.mark.parametrize("user", ["u", "me", "bob", "a.longer.user@site"])
def test_a_password_is_known_raw_by_url_and_by_basic_authentication(user: str) -> None:
    masking.hide_urls([f"https://{quote(user, '')}:{quote(CANARY, '')}@a.example/simple"])
    basic = base64.b64encode(f"{user}:{CANARY}".encode()).decode()
    for form in (CANARY, quote(CANARY, ""), quote(CANARY, "/"), basic, basic.replace("+", "-")):
        text = f"before {form} after"
        assert masking.masked(text).startswith("before ")
        assert masking.masked(text) != text
        assert masking.holds(text.encode())
    assert CANARY not in masking.masked(f"x{CANARY}x")


@pytest.mark.parametrize(
    ("url", "hidden", "shown"),
    [
        ("https://me:pw@a.example/", "me:pw@", "me pw"),
        ("https://ghp_0123456789abcdef@a.example/x", "ghp_0123456789abcdef", "a.example"),
        ("https://ghp_0123456789abcdef:x-oauth-basic@a.example", "ghp_0123456789abcdef", "basic"),
        ("https://a.example/x?token=0123456789&y=z", "0123456789", "y=z"),
        ("https://a.example/x?X-Amz-Signature=abcdef0123", "abcdef0123", "a.example"),
        ("http://me:p%40ss-word1@proxy.example:3128", "p@ss-word1", "proxy.example:3128"),
        ("ssh://git@a.example/x", "", "git"),
        ("https://a.example/@scope/x:1@2", "", "@scope/x:1@2"),
        ("one https://a.example two https://me:second-word1@b.example", "second-word1", "one"),
    ],
)
def test_of_a_url_the_password_or_the_token_is_hidden(url: str, hidden: str, shown: str) -> None:
    masking.hide_urls([url])
    assert masking.masked(shown) == shown
    assert (masking.masked(url) == url) == (not hidden)
    assert not hidden or hidden not in masking.masked(f"> {hidden} <")


def test_a_password_that_is_a_word_is_hidden_and_searched_for_beside_its_user_alone() -> None:
    masking.hide_urls(["https://me:password@a.example/"])
    assert masking.masked("the password") == "the ***"
    assert not masking.holds(b"enter your password")
    assert masking.holds(b"https://me:password@a.example/")


def test_each_line_of_a_file_is_hidden_but_short_ones() -> None:
    masking.hide_file(b"first-line-1\nab\nsecond-line-2\n")
    assert masking.masked("first-line-1 ab second-line-2") == "*** ab ***"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP PRIVATE KEY BLOCK-----"),
        ("[default]", "[profile dev2]"),
        ("[global]", "[index-servers]"),
    ],
)
def test_the_lines_around_a_secret_are_in_files_that_do_not_hold_it(first: str, last: str) -> None:
    content = f"{first}\nkey = {CANARY}\n{last}\n"
    masking.hide_file(content.encode())
    assert not masking.holds(f"{first}\n{last}\n".encode())
    assert masking.holds(f"key = {CANARY}".encode())
    assert masking.holds(f"a {content} b".encode())
    assert masking.masked(f"> {content} <") == "> ***\n <"


@pytest.mark.parametrize(
    "line", ["[0123456789abcdef]", '[url "https://token-5e3f@a.example/"]', "-----BEGIN", "[a@bcd]"]
)
def test_a_line_that_only_begins_as_one_around_a_secret_is_searched_for(line: str) -> None:
    masking.hide_file(f"{line}\nother-line\n".encode())
    assert masking.holds(line.encode())


def test_a_secret_that_is_one_word_in_brackets_is_searched_for() -> None:
    masking.hide_file(b"[password]\n")
    assert masking.holds(b"the [password]")


def test_text_that_is_no_utf_8_is_masked_too() -> None:
    masking.hide([b"\xff\xfecanary-1"])
    assert masking.masked_bytes(b"x\xff\xfecanary-1y") == b"x***y"
    assert masking.masked("\ud800") == "\ud800"
    assert masking.masked(b"\xff\xfecanary-1".decode("utf-8", "surrogateescape")) == "***"


def test_another_process_is_handed_what_is_searched_for() -> None:
    secret = f"https://me:{quote(CANARY, '')}@a.example"
    masking.hide_urls([secret, "https://me:password@b.example"])
    text = masking.dumped()
    assert CANARY.encode() not in text
    masking._hidden.clear()
    masking.load(text)
    assert masking.holds(f"x{CANARY}".encode())
    assert masking.masked("password") == "password"
    masking._hidden.clear()
    masking.load(b"")
    assert masking.searched() == ()


def test_a_url_without_its_password_is_the_same_place() -> None:
    shown = masking.without_password("https://me:pw@a.example:8080/x?y")
    assert shown == "https://a.example:8080/x?y"
    assert masking.without_password("/srv/x") == "/srv/x"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "0123456789abcdef"),
        ("WANDB_API_KEY", "0123456789abcdef"),
        ("PGPASSWORD", "Tr0ub4dor&3"),
        ("DB_PASS", "Tr0ub4dor&3"),
        ("MYSQL_PWD", "Tr0ub4dor&3"),
        ("GITHUB_PAT", "abc1234567890abcd"),
        ("AWS_SECRET_ACCESS_KEY", "0123456789/abcdef"),
        ("MY_PASSWORD", "correct-horse"),
        ("MY_PASSWORD", "correct horse battery staple"),
        ("SECRET", "words with blanks"),
        ("NOTES", f"my key is hf_{'a1' * 12}."),
        ("NOTES", f"ghp_{'a1' * 18}"),
        ("NOTES", "-----BEGIN OPENSSH PRIVATE KEY-----"),
    ],
)
def test_a_secret_is_known_by_its_name_or_its_form(name: str, value: str) -> None:
    assert masking.is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN_PATH", "huggingface/token"),
        ("HF_TOKEN", "/run/secrets/token"),
        ("PAD_TOKEN", "<pad>"),
        ("HF_TOKEN", "your token here"),
        ("DB_PASS", "all of them passed"),
        ("MY_PASSWORD", "/run/secrets/my password"),
        ("USE_TOKEN", "true"),
        ("TOKENIZERS_PARALLELISM", "false_and_more"),
        ("MAX_TOKENS", "131072"),
        ("NOTES", "hf_transfer"),
    ],
)
def test_what_only_looks_like_a_secret_is_not_one(name: str, value: str) -> None:
    assert not masking.is_secret(name, value)
