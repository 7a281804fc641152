"""Refuse words that stand for the file of an image, and name another thing."""

import os
from pathlib import Path

from lumicontainer.core import habits
from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import InputError, Problem


def refuse_other_words(path: Path) -> None:
    """Raise ``InputError`` if a path that does not exist is known as another thing."""
    if os.path.lexists(path):
        return
    word = habits.word_of(path)
    what, why, hint = f"expected the file of an image, got '{word}'", "", ""
    if os.path.isfile(f"{path}.sif"):  # noqa: PTH113 - also if the folder is closed
        hint = f"did you mean '{path}.sif'?"
    elif word in open_catalog().names("recipe"):
        why, hint = f"'{word}' is a recipe", f"lumicontainer build {word} writes {word}.sif"
    if hint := hint or habits.habit_hint(habits.IMAGE, word):
        raise InputError(Problem(what, why=why, hint=hint))
