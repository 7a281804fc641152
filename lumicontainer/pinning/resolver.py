"""Find the wheels for an image: by uv where this host has it, else by pip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lumicontainer.pinning import uv
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.wheels import Target, Wheel
from lumicontainer.system.process import ProgramError


class Resolver:
    """Ask uv and pip for the packages of one image."""

    def __init__(self, target: Target) -> None:
        self.pip = Pip(target)
        self._uv = uv.find_uv()

    def wheels(
        self,
        requirements: Sequence[str],
        there: Mapping[str, str],
        *,
        same: Mapping[str, str],
        index: str = "",
    ) -> list[Wheel]:
        """Return the wheels of requirements and of all that they need; see ``Pip.wheels``.

        Pip decides where uv fails: an index may be out of reach, and pip's reason is the one that
        ``build`` explains.
        """
        if self._uv:
            try:
                return uv.wheels(
                    self._uv, self.pip.target, requirements, there, same=same, index=index
                )
            except ProgramError:
                pass
        return self.pip.wheels(requirements, there, same=same, index=index)
