"""Hints name words that exist, and few of them."""

from lumicontainer.errors import did_you_mean


def test_a_hint_names_all_words_when_they_are_few() -> None:
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"


def test_a_hint_names_the_eight_most_similar_of_many_words() -> None:
    known = [f"{letter}{letter}" for letter in "abcdefghijklmnop"]
    hint = did_you_mean("p-and-o-and-n", known)
    assert hint.count(", ") == 8
    assert hint.endswith("oo, pp, …")


def test_a_hint_names_one_word_when_it_is_near() -> None:
    assert did_you_mean("pytorc", ["pytorch", "rocm"]) == "did you mean 'pytorch'?"
