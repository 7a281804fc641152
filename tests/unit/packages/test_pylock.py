"""Locks of PEP 751 are read and written by one module."""

import pytest

from lumicontainer.packages.pylock import PylockError, pylock_text, read_pylock

from ...packages import LOCK

WHOLE = f"""\
{LOCK}requires-python = ">=3.11"
default-groups = ["main"]

[[packages]]
name = "a"
version = "1.0"
marker = "python_version > '3.11' and 'main' in dependency_groups"
index = "https://x.example/simple"
tool = {{ some = {{ "a b" = [1, true, 2.5, inf, 2026-01-02, 03:04:05, "\\"\\u007f\\n"] }} }}
wheels = [{{ url = "https://x.example/a-1.0-py3-none-any.whl", \
upload-time = 2026-01-02T03:04:05Z, size = 7, hashes = {{ sha256 = "00" }} }}]

[[packages]]
name = "b"
directory = {{ path = "/mine", editable = true }}
"""


def test_a_lock_is_written_as_it_was_read() -> None:
    lock = read_pylock(WHOLE)
    text = pylock_text(lock)
    assert read_pylock(text) == lock
    assert pylock_text(read_pylock(text)) == text
    assert text.count("\n[[packages]]\nname = ") == 2


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "packages = []",
        f"{LOCK}packages = 3",
        f"{LOCK}[[packages]]\nname = 'a'\n",
        f"{LOCK}[[packages]]\nname = 'A\\n'\ndirectory = {{ path = '.' }}\n",
        LOCK.replace("1.0", "9.0"),
        f"{LOCK}{'a.' * 3000}a = 1",
    ],
)
def test_what_is_no_lock_is_refused(text: str) -> None:
    with pytest.raises(PylockError):
        read_pylock(text)


HASHES = "hashes = { sha256 = '00' }"


@pytest.mark.parametrize(
    "source",
    [
        f'wheels = [{{ path = "a\\u0000b/a-1.0-py3-none-any.whl", {HASHES} }}]',
        f'wheels = [{{ url = "file:///a%00b/a-1.0-py3-none-any.whl", {HASHES} }}]',
        f'sdist = {{ path = "a\\nb/a-1.0.tar.gz", {HASHES} }}',
        f'archive = {{ path = "a\\u0000b", {HASHES} }}',
        'directory = { path = "a\\u0000b" }',
        'vcs = { type = "git", path = "a\\u0000b", commit-id = "0" }',
    ],
)
def test_an_address_that_no_file_can_have_is_refused(source: str) -> None:
    with pytest.raises(PylockError, match="the address of a is invalid: "):
        read_pylock(f'{LOCK}[[packages]]\nname = "a"\nversion = "1.0"\n{source}\n')
