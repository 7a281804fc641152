"""A lock is read as it was written, and an invalid entry is refused with its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.core.lock import Lock, LockEntry, in_order, read_lock, text_of
from lumicontainer.core.model.source import APT, DEBOOTSTRAP, GIT, IMAGE, KINDS, PYTHON, SDIST, URL
from lumicontainer.errors import Problem, Problems

from .test_lock import COMMIT, OTHER, SHA, wheel


def read(text: str) -> Lock:
    problems = Problems()
    lock = read_lock(text, "a.lock.yaml", problems)
    assert lock is not None, problems.noted
    return lock


def refused(entry: str) -> Problem:
    """Return the problem of a lock with one entry."""
    problems = Problems()
    text = f"recipe: a\nplatform: b\nlayers:\n  c:\n    - {entry}\n"
    assert read_lock(text, "a.lock.yaml", problems) is None
    return problems.noted[0]


letters = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
lines = st.text(letters).filter(lambda text: text.strip() and text.isprintable())
digests = st.sampled_from([SHA, OTHER, "a" * 64])
layer_names = st.from_regex(r"[a-z0-9][a-z0-9.+-]*", fullmatch=True)
versions = st.from_regex(r"[0-9]([A-Za-z0-9.+~-]{0,4}[A-Za-z0-9.+~])?", fullmatch=True)
PIN = {
    IMAGE: digests.map(lambda digest: f"ubuntu@sha256:{digest}"),
    APT: versions.map(lambda version: f"libc6={version}"),
    PYTHON: digests.map(lambda digest: wheel("six==1.17.0", digest)),
    GIT: st.sampled_from([COMMIT, "0" * 40]),
}
optional = st.just("") | lines


@st.composite
def entries(draw: st.DrawFn) -> LockEntry:
    kind = draw(st.sampled_from(KINDS))
    entry = LockEntry(kind, draw(lines), draw(optional), dependency=draw(st.booleans()))
    if draw(st.booleans()):
        return entry._replace(open=draw(lines))
    index = draw(st.sampled_from(["", "https://wheels.example/a%20b"]))
    pin, builds = draw(PIN.get(kind, digests)), draw(optional)
    return entry._replace(pin=pin, origin=draw(optional), index_url=index, builds=builds)


ordered = st.lists(entries(), max_size=4).map(in_order)
layers = st.dictionaries(layer_names, ordered, max_size=4)
profiles = st.just("") | layer_names
locks = st.builds(Lock, layer_names, layer_names, layers, profiles, st.just(1))


@pytest.mark.slow
@given(locks)
def test_a_lock_is_read_as_it_was_written(lock: Lock) -> None:
    text = text_of(lock)
    assert read(text) == lock
    assert text_of(read(text)) == text


@pytest.mark.parametrize("word", ["0o17", "1e3", "yes", "12", "null", "2026-01-01"])
def test_a_word_that_a_reader_of_yaml_takes_for_something_else_is_quoted(word: str) -> None:
    lock = Lock("a", "b", {"c": (LockEntry(APT, word, pin="libc6=1"),)})
    assert f'apt: "{word}"' in text_of(lock)
    assert read(text_of(lock)) == lock


@pytest.mark.slow
@given(st.lists(entries()), st.randoms())
def test_the_order_of_found_pins_is_not_written(pins: list[LockEntry], other: object) -> None:
    shuffled = list(pins)
    other.shuffle(shuffled)
    one, another = (Lock("a", "b", {"c": tuple(each)}) for each in (pins, shuffled))
    assert text_of(one) == text_of(another)


@pytest.mark.parametrize(
    ("kind", "pin"),
    [
        (APT, "sl=1; id"),
        (APT, "sl"),
        (PYTHON, "six==1.17.0"),
        (PYTHON, f"six==1 --hash=sha256:{SHA} --index-url https://a.example"),
        (PYTHON, f"six==1 --hash=sha256:{SHA}\\n-r other"),
        (GIT, "89abcde"),
        (URL, "0" * 63),
        (SDIST, "$(id)"),
        (DEBOOTSTRAP, "12.11"),
        (IMAGE, "ubuntu:noble"),
    ],
)
def test_a_malformed_pin_is_refused_with_its_place(kind: str, pin: str) -> None:
    assert refused(f'{kind}: x\n      pin: "{pin}"').where == "a.lock.yaml:6:12"


@pytest.mark.parametrize("more", ["", f'\n      pin: "{SHA}"\n      unpinned: why'])
def test_an_entry_is_either_pinned_or_open(more: str) -> None:
    assert "either 'pin' or 'unpinned'" in refused(f"url: x{more}").what


def with_index(index: str) -> str:
    return f"python: x\n      pin: six==1 --hash=sha256:{SHA}\n      index: {index}"


@pytest.mark.parametrize("index", ["https://a:b/simple", "https://a:99999/", "file:///srv"])
def test_an_index_that_is_no_url_is_refused_with_its_place(index: str) -> None:
    assert refused(with_index(index)).where == "a.lock.yaml:7:14"


@pytest.mark.parametrize("index", ["me:S3cr3t@a.example/simple", "a.example/simple?token=S3cr3t"])
def test_an_index_with_a_secret_is_refused_without_showing_it(index: str) -> None:
    assert "S3cr3t" not in str(refused(with_index(f"https://{index}")))
