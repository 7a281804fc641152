"""The output of a build: an image file, or an image in a Docker daemon."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import Problem
from lumicontainer.sandbox.builder import Builder


class OutputState(NamedTuple):
    """Say whether an output is what a build would make, and what is wrong with it."""

    current: bool
    warnings: Sequence[Problem] = ()


class BuildOutput(Protocol):
    """A place where a build leaves its image."""

    @property
    def word(self) -> str:
        """Return what the user named, as one word."""

    @property
    def name(self) -> str:
        """Return the name of the image, or of its file."""

    @property
    def path(self) -> Path:
        """Return the file; for an image of Docker the name that its file would have."""

    def runtime(self, named: str | None) -> str | None:
        """Return the runtime that a build into this output uses if ``named`` is asked for."""

    def look(self, plan: Plan, date: str, *, verify: bool, fresh: bool) -> OutputState:
        """Return the state of the output; raise ``InputError`` if a build cannot write it.

        ``date`` is the one that a build gives to the image. A ``fresh`` build has no current
        output, and one that is to ``verify`` none without checks.
        """

    def require_replaceable(self) -> None:
        """Raise ``InputError`` if the old image has what a new one would not have."""

    def build(self, builder: Builder, *, verify: bool) -> None:
        """Build the image and leave it here."""
