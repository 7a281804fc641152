"""Find the wheels for an image: by uv if this host has it, else by pip."""

from __future__ import annotations

from collections.abc import Callable

from lumicontainer.pinning import uv
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.wheels import Query, Target, Wheel
from lumicontainer.system.process import ProgramError


class Resolver:
    """Resolve the Python packages of one image, and report by which program."""

    def __init__(self, target: Target, say: Callable[[str], None]) -> None:
        self.pip = Pip(target)
        self._uv, self._say = uv.find_uv(), say
        slower = "pip: uv not found; it is faster: pip install 'lumicontainer[lock]'"
        self._say(f"resolver of Python packages: {self._uv or slower}")

    def wheels(self, query: Query) -> list[Wheel]:
        """Return the wheels of requirements and of all that they need; see ``Pip.wheels``.

        If uv fails, pip decides: an index may be unreachable, and ``build`` explains the messages
        of pip only.
        """
        if self._uv:
            try:
                return uv.wheels(self._uv, self.pip.target, query)
            except ProgramError as error:
                more = ["…"] if len(query.requirements) > 3 else []
                names = ", ".join([*query.requirements[:3], *more])
                why = " ".join(error.problems[0].why.split()).removeprefix("error: ")
                self._say(f"note: pip resolves {names}, because uv failed: {why}")
        return self.pip.wheels(query)
